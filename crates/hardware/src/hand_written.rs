//! The kernel as a person wrote it: the PTX that nvcc made of a scenario's
//! `.cu` file, which stands beside that file.

use crate::job::JobArgument;
use scenario::program::Scalar;
use scenario::{Files, Run};
use std::path::{Path, PathBuf};

/// PTX of a hand-written kernel, bound to a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HandWritten {
    /// The PTX file.
    pub path: PathBuf,
    /// Its text.
    pub ptx: String,
    /// The kernel's name there.
    pub entry: String,
    /// One argument for each parameter.
    pub arguments: Vec<JobArgument>,
}

/// The hand-written kernel of a run. `Ok(None)` where the scenario's kernel is
/// no `.cu` file.
///
/// # Errors
/// A sentence on why there is a file and its kernel cannot stand for this run.
pub(crate) fn find(run: &Run, files: &dyn Files) -> Result<Option<HandWritten>, String> {
    let Some(entry) = &run.kernel.entry else { return Ok(None) };
    let Some((cu, text)) = source(run) else { return Ok(None) };
    if let Some((name, written, wanted)) = changed_define(run, text) {
        return Err(format!(
            "{} was compiled with {name} = {written}, and this run has {wanted}",
            cu.with_extension("ptx").display()
        ));
    }
    let path = cu.with_extension("ptx");
    let bytes = files.read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let ptx = String::from_utf8(bytes).map_err(|_| format!("{} is no text", path.display()))?;
    let (name, sizes) = entry_of(&ptx, entry)
        .ok_or_else(|| format!("{} has no kernel `{entry}`", path.display()))?;
    if sizes.len() != run.kernel.parameters.len() {
        return Err(format!(
            "`{entry}` has {} parameters in {}, and {} in the source",
            sizes.len(),
            path.display(),
            run.kernel.parameters.len()
        ));
    }
    let arguments = run
        .kernel
        .parameters
        .iter()
        .zip(&sizes)
        .map(|(parameter, size)| bind(run, parameter, *size))
        .collect::<Result<_, _>>()?;
    Ok(Some(HandWritten { path, entry: name.to_owned(), arguments, ptx }))
}

/// The `.cu` file that the kernel's accesses stand in, and its text.
fn source(run: &Run) -> Option<(&Path, &str)> {
    run.program
        .sites
        .iter()
        .filter_map(|site| run.sources.find(site.span.source))
        .find(|source| source.path.extension().is_some_and(|extension| extension == "cu"))
        .map(|source| (source.path.as_path(), &*source.text))
}

/// The first `#define NAME integer` whose name is a parameter of the run with
/// another value: the scenario overrides it, and the compiled kernel does not
/// know.
fn changed_define<'t>(run: &Run, text: &'t str) -> Option<(&'t str, i64, i64)> {
    text.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let mut words = rest.split_whitespace();
        let name = words.next()?;
        let digits = words.next()?.trim_matches(['(', ')']).trim_end_matches(['u', 'U', 'l', 'L']);
        let written = match digits.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok()?,
            None => digits.parse().ok()?,
        };
        let (_, wanted) = run.params.iter().find(|(param, _)| param == name)?;
        (wanted.value != written).then_some((name, written, wanted.value))
    })
}

/// A parameter's type in PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parameter {
    bytes: u8,
    float: bool,
}

/// The kernel's name in PTX, as written or mangled, and its parameters.
fn entry_of<'t>(ptx: &'t str, entry: &str) -> Option<(&'t str, Vec<Parameter>)> {
    // Itanium C++ ABI: `_Z`, the length of the name, the name, its parameters.
    let mangled = format!("_Z{}{entry}", entry.len());
    ptx.match_indices(".entry").find_map(|(at, word)| {
        let rest = ptx[at + word.len()..].trim_start();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$')))?;
        let name = &rest[..end];
        let types = name.strip_prefix(&mangled);
        // After the mangled name comes a type, and no type begins with a digit
        // or an underscore.
        let is_mangled = types.is_some_and(|types| {
            types.starts_with(|c: char| c.is_ascii_alphabetic()) || types.is_empty()
        });
        if name != entry && !is_mangled {
            return None;
        }
        let list = rest[end..].trim_start().strip_prefix('(');
        let parameters = match list {
            Some(list) => list[..list.find(')')?]
                .split(',')
                .filter(|declaration| !declaration.trim().is_empty())
                .map(parameter)
                .collect::<Option<_>>()?,
            None => Vec::new(),
        };
        Some((name, parameters))
    })
}

/// The type of `.param .u64 name`; `None` for arrays, which are structs by
/// value.
fn parameter(declaration: &str) -> Option<Parameter> {
    if declaration.contains('[') {
        return None;
    }
    declaration.split_whitespace().find_map(|word| {
        let (kind, bits) = word.strip_prefix('.')?.split_at_checked(1)?;
        let bits: u8 = bits.parse().ok()?;
        matches!(kind, "u" | "s" | "b" | "f")
            .then_some(Parameter { bytes: bits / 8, float: kind == "f" })
    })
}

/// The argument for a parameter of the kernel's source: a buffer of that name,
/// or a parameter of the scenario.
fn bind(run: &Run, name: &str, parameter: Parameter) -> Result<JobArgument, String> {
    if let Some(index) = run.buffers.iter().position(|buffer| buffer.name == name) {
        return Ok(JobArgument::Buffer(index));
    }
    let (_, value) = run
        .params
        .iter()
        .find(|(param, _)| param == name)
        .ok_or_else(|| format!("nothing is bound to the kernel's parameter `{name}`"))?;
    let number = match value.ty {
        Scalar::U64 => value.value as u64 as f64,
        _ => value.value as f64,
    };
    let bits = match parameter {
        Parameter { float: true, bytes: 4 } => (number as f32).to_bits().into(),
        Parameter { float: true, .. } => number.to_bits(),
        _ => value.value as u64,
    };
    Ok(JobArgument::Value { bytes: parameter.bytes, value: bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 9.0
.target sm_75
.visible .entry copy_all(
	.param .u64 copy_all_param_0,
	.param .u32 copy_all_param_1
)
{ ret; }
.visible .entry _Z4copyPfPKff(
	.param .u64 .ptr .align 1 _Z4copyPfPKff_param_0,
	.param .u64 _Z4copyPfPKff_param_1,
	.param .f32 _Z4copyPfPKff_param_2
)
{ ret; }
.entry nothing()
{ ret; }
.visible .entry by_value(
	.param .align 4 .b8 by_value_param_0[16]
)
{ ret; }
";

    #[test]
    fn kernels_are_found_plain_and_mangled() {
        let pointer = Parameter { bytes: 8, float: false };
        let int = Parameter { bytes: 4, float: false };
        let float = Parameter { bytes: 4, float: true };
        assert_eq!(entry_of(PTX, "copy_all"), Some(("copy_all", vec![pointer, int])));
        assert_eq!(entry_of(PTX, "copy"), Some(("_Z4copyPfPKff", vec![pointer, pointer, float])));
        assert_eq!(entry_of(PTX, "nothing"), Some(("nothing", Vec::new())));
        assert_eq!(entry_of(PTX, "copy_al"), None);
        assert_eq!(entry_of(PTX, "by_value"), None);
    }
}

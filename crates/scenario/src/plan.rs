//! One run that is to be made: what is settled before its parameters are
//! evaluated, and the steps from there to the typed program.

use crate::diagnostic::{Diagnostic, Diagnostics, Kind};
use crate::document::{self, Document, Literal, Located, Param, Quantity, Table};
use crate::layer::Layer;
use crate::load::{FileError, Inner, Options, TOML, literal_text, unreadable};
use crate::lower::{Code, Entry, Parsed};
use crate::params::{self, Definition, Scope};
use crate::run::{ParamValue, Run};
use crate::source::{Sources, Span};
use crate::types::StructTable;
use crate::write::nowhere;
use crate::{buffers, launch};
use std::sync::Arc;

/// A swept parameter with its values.
pub(crate) type Sweep = (Located<String>, Vec<Located<Literal>>);

/// A parameter's value on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Override {
    pub(crate) name: String,
    pub(crate) code: Code,
}

/// A scenario × variant × sweep point that a [`Run`] can be made of.
#[derive(Clone, Debug)]
pub struct RunPlan {
    pub(crate) inner: Arc<Inner>,
    /// The scenario's texts, and the overrides.
    pub(crate) sources: Arc<Sources>,
    pub(crate) layer: Arc<Layer>,
    pub(crate) variant: Option<String>,
    pub(crate) point: Vec<(String, Located<Literal>)>,
    pub(crate) overrides: Arc<[Override]>,
    pub(crate) options: Options,
}

/// Every combination, the last key changing fastest.
pub(crate) fn points(sweeps: &[Sweep]) -> Vec<Vec<(String, Located<Literal>)>> {
    let mut points = vec![Vec::new()];
    for (name, values) in sweeps {
        points = points
            .into_iter()
            .flat_map(|point| {
                values.iter().map(move |value| {
                    let mut next = point.clone();
                    next.push((name.value.clone(), value.clone()));
                    next
                })
            })
            .collect();
    }
    points
}

impl RunPlan {
    /// The scenario's name.
    pub fn scenario(&self) -> &str {
        &self.inner.name
    }

    /// The scenario's title.
    pub fn title(&self) -> &str {
        self.inner.title()
    }

    /// Name of the variant; `None` is the file without any.
    pub fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }

    /// The swept parameters with their values as the file writes them.
    pub fn point(&self) -> impl Iterator<Item = (&str, String)> {
        self.point.iter().map(|(name, value)| (name.as_str(), literal_text(&value.value)))
    }

    /// Variant and point in words: `padded, stride = 2`; empty where the
    /// scenario has one run only.
    pub fn label(&self) -> String {
        let variant = self.variant.iter().cloned();
        let point = self.point().map(|(name, value)| format!("{name} = {value}"));
        variant.chain(point).collect::<Vec<_>>().join(", ")
    }

    /// Evaluates the parameters, sizes the launch and the buffers, and types
    /// the kernel.
    ///
    /// # Errors
    /// Everything that is wrong with this run, in order of place: names, types,
    /// limits, and constructs of CUDA that are not modelled.
    pub fn build(&self) -> Result<Run, Diagnostics> {
        self.try_build().map_err(|errors| {
            let label = self.label();
            let noted = errors.into_iter().map(|error| match label.as_str() {
                "" => error,
                label => error.note(format!("in the run: {label}")),
            });
            Diagnostics::new(Arc::clone(&self.sources), noted.collect())
        })
    }

    fn try_build(&self) -> Result<Run, Vec<Diagnostic>> {
        let layer = &*self.layer;
        let sources = &*self.sources;

        let no_structs = StructTable::default();
        let params = params::evaluate(&self.definitions(), &no_structs)?;
        let mut structs = structs(layer, &params, sources)?;
        let kernel = self.kernel();
        if let Ok((parsed, _)) = &kernel {
            for (_, buffer) in &layer.buffers {
                if let Some(name) = &buffer.value.ty {
                    parsed.define_struct(name.value.trim(), &params, &mut structs)?;
                }
            }
        }

        let mut scope = Scope::new(&structs);
        for (name, value) in &params {
            scope.define(name, *value);
        }
        let Some(launch_table) = &layer.launch else {
            return Err(vec![missing_table(
                sources,
                "launch",
                "add [launch] with `grid` and `block`, such as grid = [\"(n + 255) / 256\"] and \
                 block = [256]",
            )]);
        };
        launch::evaluate(launch_table, &mut scope, TOML, sources)?;
        buffers::evaluate(&layer.buffers, &mut scope, &structs, &self.inner.data, TOML, sources)?;

        let (parsed, entry) = kernel.map_err(|error| vec![error])?;
        let environment = crate::lower::Environment { params: &params, ..scope.environment() };
        let (program, kernel) = parsed.kernel(&entry, &environment)?;
        launch::check_shared(&program, launch_table, scope.launch.dynamic_shared_bytes, TOML)
            .map_err(|error| vec![error])?;

        Ok(Run {
            scenario: self.inner.name.clone(),
            title: self.inner.title().to_owned(),
            variant: self.variant.clone(),
            params,
            swept: self.point.iter().map(|(name, _)| name.clone()).collect(),
            launch: scope.launch,
            buffers: scope.buffers,
            structs,
            program,
            allows: self.inner.allows.clone(),
            claims: self.inner.document.claims.iter().map(|claim| claim.value).collect(),
            sources: Arc::clone(&self.sources),
            kernel,
        })
    }

    /// The scenario as a file of this one run: the variant merged in, swept and
    /// overridden parameters fixed, the kernel's text in the file.
    ///
    /// # Errors
    /// A kernel whose file cannot be read.
    pub fn document(&self) -> Result<Document, Diagnostics> {
        let layer = &*self.layer;
        let base = &self.inner.document;
        let counting = self.options.counting.then_some(()).and(base.counting.as_ref());
        let mut params = layer.params.clone();
        for (name, param) in &mut params {
            let name = name.value.as_str();
            if let Some(other) = counting.and_then(|counting| counting.params.get(name)) {
                param.value = other.value.clone();
            }
            let mut fix = |literal: Literal| {
                let value = match &mut param.value {
                    Param::Plain(value) => value,
                    Param::Typed(typed) => &mut typed.value.value,
                };
                // A floating-point parameter stays one.
                *value = match (&*value, literal) {
                    (Literal::Float(_), Literal::Quantity(Quantity::Int(int))) => {
                        Literal::Float(int as f64)
                    }
                    (_, literal) => literal,
                };
            };
            if let Some((_, value)) = self.point.iter().find(|(swept, _)| swept == name) {
                fix(value.value.clone());
            }
            if let Some(set) = self.overrides.iter().rfind(|set| set.name == name) {
                let text = set.code.text.trim();
                fix(if let Ok(int) = text.replace('_', "").parse() {
                    Literal::Quantity(Quantity::Int(int))
                } else if let Ok(truth) = text.parse() {
                    Literal::Bool(truth)
                } else if let Ok(float) = text.parse() {
                    Literal::Float(float)
                } else {
                    Literal::Quantity(Quantity::Expr(text.to_owned()))
                });
            }
        }
        let mut kernel = layer.kernel.clone();
        if let Some(kernel) = &mut kernel
            && let Some(file) = kernel.value.file.take()
        {
            let text = match self.inner.kernels.get(&file.value) {
                Some(Ok(id)) => {
                    self.sources.get(*id).text.trim_start_matches('\u{feff}').to_owned()
                }
                Some(Err(FileError::NotText(error))) => {
                    return Err(Diagnostics::new(
                        Arc::clone(&self.sources),
                        vec![error.as_ref().clone()],
                    ));
                }
                Some(Err(FileError::Unreadable(reason))) => {
                    let error = unreadable(file.span(TOML), &file.value, reason);
                    return Err(Diagnostics::new(Arc::clone(&self.sources), vec![error]));
                }
                None => {
                    let error = unreadable(file.span(TOML), &file.value, "it was not read");
                    return Err(Diagnostics::new(Arc::clone(&self.sources), vec![error]));
                }
            };
            kernel.value.code = Some(nowhere(text));
        }
        Ok(Document {
            title: base.title.clone(),
            summary: base.summary.clone(),
            claims: base.claims.clone(),
            params: Table(params),
            launch: layer.launch.clone(),
            structs: Table(layer.structs.clone()),
            buffers: Table(layer.buffers.clone()),
            kernel,
            allow: base.allow.clone(),
            ..Document::default()
        })
    }

    /// The parameters' definitions: the file's, and over them the variant's
    /// (merged already), those for counting, the sweep point, and `--set`.
    fn definitions(&self) -> Vec<Definition> {
        let sources = &*self.sources;
        let counting =
            self.options.counting.then_some(()).and(self.inner.document.counting.as_ref());
        self.layer
            .params
            .iter()
            .map(|(name, param)| {
                let name = name.value.as_str();
                let mut definition = Definition::new(name, param, TOML, sources);
                if let Some(param) = counting.and_then(|counting| counting.params.get(name)) {
                    definition.replace_definition(Definition::new(name, param, TOML, sources));
                }
                if let Some((_, value)) = self.point.iter().find(|(swept, _)| swept == name) {
                    definition.replace(value, TOML, sources);
                }
                // The last one counts, as on other command lines.
                if let Some(set) = self.overrides.iter().rfind(|set| set.name == name) {
                    definition.replace_with_text(&set.code);
                }
                definition
            })
            .collect()
    }

    /// The kernel's code and which function of it runs.
    fn kernel(&self) -> Result<(Arc<Parsed>, Entry), Diagnostic> {
        let Some(kernel) = &self.layer.kernel else {
            return Err(missing_table(
                &self.sources,
                "kernel",
                "add [kernel] with `code = '''…'''`, or with `file` and `entry`",
            ));
        };
        let entry = match &kernel.value.entry {
            Some(name) => Entry::Named(name.value.clone(), name.span(TOML)),
            None => Entry::Only,
        };
        if let Some(code) = &kernel.value.code {
            let span = code.span(TOML);
            let parsed =
                self.inner.parsed(TOML, span.start, || self.sources.string(span, &code.value));
            return Ok((parsed, entry));
        }
        let Some(file) = &kernel.value.file else {
            return Err(Diagnostic::new(
                Kind::Document,
                kernel.span(TOML),
                "the kernel has neither `code` nor `file`",
                "add `code = '''…'''`, or `file = \"….cu\"`",
            ));
        };
        match self.inner.kernels.get(&file.value) {
            Some(Ok(id)) => Ok((self.inner.parsed(*id, 0, || self.sources.code(*id)), entry)),
            Some(Err(FileError::NotText(error))) => {
                Err(error.as_ref().clone().also(file.span(TOML), "named here"))
            }
            Some(Err(FileError::Unreadable(reason))) => {
                Err(unreadable(file.span(TOML), &file.value, reason))
            }
            None => Err(unreadable(file.span(TOML), &file.value, "it was not read")),
        }
    }
}

/// The error for a table that the file lacks, at the file's end.
fn missing_table(sources: &Sources, name: &str, help: &str) -> Diagnostic {
    let end = sources.get(TOML).text.trim_end().len();
    let end = u32::try_from(end).unwrap_or(u32::MAX);
    Diagnostic::new(
        Kind::Document,
        Span::new(TOML, end, end),
        format!("the scenario has no [{name}]"),
        help,
    )
    .label(format!("the file ends without [{name}]"))
}

/// Lays out the structs, each one knowing those before it.
fn structs(
    layer: &Layer,
    params: &[(String, ParamValue)],
    sources: &Sources,
) -> Result<StructTable, Vec<Diagnostic>> {
    let mut table = StructTable::default();
    let mut errors = Vec::new();
    for (name, spec) in &layer.structs {
        if let Err(error) = add_struct(&mut table, name, &spec.value, params, sources) {
            errors.push(error);
        }
    }
    if errors.is_empty() { Ok(table) } else { Err(errors) }
}

fn add_struct(
    table: &mut StructTable,
    name: &Located<String>,
    spec: &document::Struct,
    params: &[(String, ParamValue)],
    sources: &Sources,
) -> Result<(), Diagnostic> {
    let span = name.span(TOML);
    let Some(fields) = &spec.fields else {
        return Err(Diagnostic::new(
            Kind::Document,
            span,
            format!("struct `{}` has no `fields`", name.value),
            "add `fields = [\"float x\", \"float y\"]`",
        ));
    };
    let fields: Vec<Code> =
        fields.value.iter().map(|field| sources.string(field.span(TOML), &field.value)).collect();
    let align = match &spec.align {
        None => None,
        Some(align) => {
            let mut scope = Scope::new(table);
            for (name, value) in params {
                scope.define(name, *value);
            }
            let n = scope.number(align, TOML, sources)?;
            Some(u64::try_from(n).map_err(|_| {
                Diagnostic::new(
                    Kind::Type,
                    align.span(TOML),
                    format!("an alignment of {n} bytes is not possible"),
                    "use a power of two, such as 16",
                )
            })?)
        }
    };
    table.define(&name.value, &fields, align, params, span)?;
    Ok(())
}

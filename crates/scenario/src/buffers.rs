//! Buffers: element types, sizes in memory, and contents.

use crate::diagnostic::{Diagnostic, Kind};
use crate::document::{self, Located, Quantity};
use crate::load::Data;
use crate::lower::{self, Code, Origin};
use crate::params::Scope;
use crate::program::Scalar;
use crate::run::{Buffer, Contents, Memory, ParamValue};
use crate::source::{SourceId, Sources, Span};
use crate::types::{StructTable, Type};
use std::path::Path;
use std::sync::Arc;

/// Bytes that all buffers of a run may have together: addresses of a device
/// have 47 bits for them (CUDA unifies host and device addresses, of which
/// user programs own the lower half of 48 bits).
pub const MAX_TOTAL_BYTES: u64 = 1 << 47;

/// Rows that `cudaMallocPitch` allocates start at multiples of this many
/// bytes on devices of capability 7.0–9.0 (observed; the function's manual
/// leaves it to the driver).
pub const CUDA_PITCH_BYTES: u64 = 512;

/// Axes a buffer may have.
pub const MAX_AXES: usize = 8;

/// Values that may be read from one file; they are kept in memory.
pub const MAX_CONTENTS: u64 = 1 << 27;

/// Evaluates the buffers in their order, each one knowing those before it, and
/// adds them to the scope.
pub(crate) fn evaluate(
    buffers: &[(Located<String>, Located<document::Buffer>)],
    scope: &mut Scope<'_>,
    structs: &StructTable,
    data: &Data,
    source: SourceId,
    sources: &Sources,
) -> Result<(), Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut total: u64 = 0;
    for (name, definition) in buffers {
        match buffer(name, definition, scope, structs, data, source, sources) {
            Ok((buffer, ty)) => {
                total = total.saturating_add(buffer.bytes).saturating_add(buffer.offset_bytes);
                if total > MAX_TOTAL_BYTES {
                    errors.push(
                        Diagnostic::new(
                            Kind::Limit,
                            buffer.span,
                            format!("the buffers have more than {MAX_TOTAL_BYTES} bytes (128 TiB)"),
                            "use smaller buffers: no device can address as much",
                        )
                        .label(format!("{} bytes", buffer.bytes)),
                    );
                    return Err(errors);
                }
                scope.buffers.push(buffer);
                scope.buffer_types.push(ty);
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn buffer(
    name: &Located<String>,
    definition: &Located<document::Buffer>,
    scope: &Scope<'_>,
    structs: &StructTable,
    data: &Data,
    source: SourceId,
    sources: &Sources,
) -> Result<(Buffer, Type), Diagnostic> {
    let spec = &definition.value;
    let missing = |key: &str, example: &str| {
        Diagnostic::new(
            Kind::Document,
            name.span(source),
            format!("buffer `{}` has no `{key}`", name.value),
            format!("add `{key} = {example}` to it"),
        )
    };
    let Some(type_name) = &spec.ty else { return Err(missing("type", "\"float\"")) };
    let Some(extents) = &spec.shape else { return Err(missing("shape", "[\"n\"]")) };

    let ty = element_type(type_name, structs, source, sources)?;
    let element_bytes = structs.size_of(&ty);
    let align = structs.align_of(&ty);
    let shape = shape(extents, scope, source, sources)?;
    let too_large = || {
        Diagnostic::new(
            Kind::Limit,
            extents.span(source),
            format!("buffer `{}` has more than {MAX_TOTAL_BYTES} bytes (128 TiB)", name.value),
            "use a smaller shape: no device can address as much",
        )
    };
    let row_elements = shape.last().copied().unwrap_or(1);
    let row_bytes = row_elements
        .checked_mul(element_bytes)
        .filter(|&b| b <= MAX_TOTAL_BYTES)
        .ok_or_else(too_large)?;
    let pitch = match &spec.pitch {
        None => None,
        Some(pitch) => Some(row_pitch(pitch, row_bytes, align, &shape, scope, source, sources)?),
    };
    let bytes = shape
        .iter()
        .rev()
        .skip(1)
        .try_fold(pitch.unwrap_or(row_bytes), |bytes, &n| bytes.checked_mul(n))
        .filter(|&bytes| bytes <= MAX_TOTAL_BYTES)
        .ok_or_else(too_large)?;

    let buffer = Buffer {
        name: name.value.clone(),
        type_name: type_name.value.clone(),
        ty: ty.clone(),
        element_bytes,
        scalar: ty.scalar(),
        offset_bytes: offset(spec, align, &type_name.value, scope, source, sources)?,
        contents: contents(spec, &ty, &shape, scope, data, source, sources)?,
        shape,
        pitch,
        bytes,
        memory: match spec.memory.as_ref().map(|memory| memory.value) {
            None | Some(document::Memory::Device) => Memory::Device,
            Some(document::Memory::Pinned) => Memory::Pinned,
        },
        span: name.span(source),
    };
    Ok((buffer, ty))
}

/// The element type.
fn element_type(
    name: &Located<String>,
    structs: &StructTable,
    source: SourceId,
    sources: &Sources,
) -> Result<Type, Diagnostic> {
    let span = name.span(source);
    let refuse = |kind, what: &str, help: &str| {
        let message = format!("elements of type `{}`{what}", name.value.escape_debug());
        Err(Diagnostic::new(kind, span, message, help))
    };
    let words = name.value.trim();
    if words.ends_with(['*', '&']) {
        let help = "use a buffer of integers as indices";
        return refuse(Kind::NotModelled, ": buffers of pointers are not modelled", help);
    }
    if words.ends_with(']') {
        return refuse(Kind::Type, "", "put the lengths into `shape`, outermost first");
    }
    if words == "void" {
        let help = "name what is in the buffer, such as \"float\" or \"unsigned char\"";
        return refuse(Kind::Type, " have no size", help);
    }
    match structs.parse_type(&sources.string(span, &name.value))? {
        ty @ (Type::Scalar(_) | Type::Vector { .. } | Type::Struct(_)) => Ok(ty),
        _ => refuse(Kind::Type, "", "use a scalar, a vector such as \"float4\", or a struct"),
    }
}

fn shape(
    extents: &Located<document::Extents>,
    scope: &Scope<'_>,
    source: SourceId,
    sources: &Sources,
) -> Result<Vec<u64>, Diagnostic> {
    let given = &extents.value.0;
    if given.is_empty() || given.len() > MAX_AXES {
        return Err(Diagnostic::new(
            Kind::Document,
            extents.span(source),
            format!("a shape of {} axes", given.len()),
            format!("give 1 to {MAX_AXES} axes, outermost first: [\"height\", \"width\"]"),
        ));
    }
    given
        .iter()
        .map(|quantity| {
            let n = scope.number(quantity, source, sources)?;
            u64::try_from(n).ok().filter(|&n| n > 0).ok_or_else(|| {
                let help = if n > 0 {
                    "use a smaller shape: no device can address as much"
                } else {
                    "an axis has at least one element"
                };
                let span = quantity.span(source);
                let error =
                    Diagnostic::new(Kind::Limit, span, format!("an axis of {n} elements"), help);
                scope.explain(error, quantity)
            })
        })
        .collect()
}

/// Bytes from one row to the next.
fn row_pitch(
    pitch: &Located<Quantity>,
    row_bytes: u64,
    align: u64,
    shape: &[u64],
    scope: &Scope<'_>,
    source: SourceId,
    sources: &Sources,
) -> Result<u64, Diagnostic> {
    let span = pitch.span(source);
    if shape.len() < 2 {
        return Err(Diagnostic::new(
            Kind::Document,
            span,
            "a buffer of one axis has no rows to pad",
            "give it two axes, as in shape = [\"height\", \"width\"], or remove `pitch`",
        ));
    }
    if matches!(&pitch.value, Quantity::Expr(text) if text == "cuda") {
        return Ok(row_bytes.next_multiple_of(CUDA_PITCH_BYTES));
    }
    let n = scope.number(pitch, source, sources)?;
    let refuse = |message: String, help: String| {
        Err(scope.explain(Diagnostic::new(Kind::Limit, span, message, help), pitch))
    };
    match u64::try_from(n) {
        Ok(bytes) if bytes > MAX_TOTAL_BYTES => refuse(
            format!("a pitch of {bytes} bytes"),
            "use a smaller one: no device can address as much".into(),
        ),
        Ok(bytes) if bytes >= row_bytes && bytes.is_multiple_of(align) => Ok(bytes),
        Ok(bytes) if bytes >= row_bytes => refuse(
            format!("a pitch of {bytes} bytes misaligns rows"),
            format!("elements are aligned to {align} bytes: use a multiple of that"),
        ),
        _ => refuse(
            format!("a pitch of {n} bytes is smaller than a row, which has {row_bytes}"),
            "the pitch is in bytes, not elements; \"cuda\" is what cudaMallocPitch would choose"
                .into(),
        ),
    }
}

fn offset(
    spec: &document::Buffer,
    align: u64,
    type_name: &str,
    scope: &Scope<'_>,
    source: SourceId,
    sources: &Sources,
) -> Result<u64, Diagnostic> {
    let Some(offset) = &spec.offset_bytes else { return Ok(0) };
    let n = scope.number(offset, source, sources)?;
    let refuse = |message: String, help: String| {
        let span = offset.span(source);
        Err(scope.explain(Diagnostic::new(Kind::Limit, span, message, help), offset))
    };
    match u64::try_from(n) {
        Ok(bytes) if bytes > MAX_TOTAL_BYTES => refuse(
            format!("an offset of {bytes} bytes"),
            "use a smaller one: no device can address as much".into(),
        ),
        Ok(bytes) if bytes.is_multiple_of(align) => Ok(bytes),
        Ok(bytes) => refuse(
            format!("an offset of {bytes} bytes misaligns every `{type_name}` of the buffer"),
            format!("a device refuses such an access: use a multiple of {align}"),
        ),
        Err(_) => refuse(
            format!("an offset of {n} bytes lies before the allocation"),
            "use 0 or more".into(),
        ),
    }
}

fn contents(
    spec: &document::Buffer,
    ty: &Type,
    shape: &[u64],
    scope: &Scope<'_>,
    data: &Data,
    source: SourceId,
    sources: &Sources,
) -> Result<Contents, Diagnostic> {
    let place = match (&spec.init, &spec.file) {
        (None, None) => return Ok(Contents::Unknown),
        (Some(init), _) => init.span(source),
        (_, Some(file)) => file.span(source),
    };
    let scalar = match ty {
        Type::Scalar(scalar) if !scalar.is_float() => *scalar,
        Type::Scalar(_) => {
            return Err(Diagnostic::new(
                Kind::NotModelled,
                place,
                "contents of a floating-point buffer are not modelled",
                "remove them: no address depends on a floating-point value",
            ));
        }
        _ => {
            return Err(Diagnostic::new(
                Kind::NotModelled,
                place,
                "contents of vectors and structs are not modelled",
                "give the buffer the scalar type of its parts and one more axis (of `uchar4`: \
                 `type = \"unsigned char\"`, `shape = [n, 4]`), and cast the pointer in the kernel: \
                 `reinterpret_cast<uchar4*>(buffer)[i]`",
            ));
        }
    };
    if let Some(init) = &spec.init {
        let code = match &init.value {
            Quantity::Expr(text) => sources.string(place, text),
            Quantity::Int(value) => {
                let text = value.to_string();
                let origin = Origin::Mapped(vec![place.start; text.len() + 1].into());
                Code { text: text.into(), source, origin }
            }
        };
        let expr = lower::init_expression(&code, &scope.environment())?;
        return Ok(Contents::Computed(Arc::new(expr)));
    }
    let Some(file) = &spec.file else { return Ok(Contents::Unknown) };
    let elements = shape.iter().try_fold(1_u64, |product, &n| product.checked_mul(n));
    let Some(elements) = elements.filter(|&n| n <= MAX_CONTENTS) else {
        return Err(Diagnostic::new(
            Kind::Limit,
            place,
            format!("a file cannot fill more than {MAX_CONTENTS} elements"),
            "use a smaller shape, or `init`",
        ));
    };
    let values = data.values(&file.value, scalar, place)?;
    if (values.len() as u64) < elements {
        return Err(Diagnostic::new(
            Kind::Limit,
            place,
            format!("the file has {} values, the buffer {elements} elements", values.len()),
            "use a smaller shape, or a file with more values",
        ));
    }
    Ok(Contents::Listed(values))
}

/// Reads a data file's values: the kind is told by the name's ending.
pub(crate) fn read_values(
    path: &Path,
    bytes: &[u8],
    scalar: Scalar,
    place: Span,
) -> Result<Arc<[i64]>, Diagnostic> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    match ending.to_ascii_lowercase().as_str() {
        "bin" | "raw" => read_binary(bytes, scalar, place),
        "txt" | "csv" => read_text(path, bytes, scalar, place),
        _ => Err(Diagnostic::new(
            Kind::Input,
            place,
            "the file's name does not tell what is in it",
            "name it .bin or .raw (little-endian binary, of the element type), or .txt or .csv \
             (whole numbers between commas or white space)",
        )),
    }
}

fn too_many(place: Span) -> Diagnostic {
    Diagnostic::new(
        Kind::Limit,
        place,
        format!("the file has more than {MAX_CONTENTS} values"),
        "use a smaller file, or `init`",
    )
}

fn read_binary(bytes: &[u8], scalar: Scalar, place: Span) -> Result<Arc<[i64]>, Diagnostic> {
    let size = scalar.bytes() as usize;
    if !bytes.len().is_multiple_of(size) {
        return Err(Diagnostic::new(
            Kind::Input,
            place,
            format!("the file has {} bytes, which is no multiple of {size}", bytes.len()),
            format!("it holds little-endian elements of {size} bytes: is the type right?"),
        ));
    }
    if (bytes.len() / size) as u64 > MAX_CONTENTS {
        return Err(too_many(place));
    }
    Ok(bytes
        .chunks_exact(size)
        .map(|chunk| {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(chunk);
            let value = u64::from_le_bytes(wide);
            // A signed value's sign is its topmost bit.
            let unused = 64 - 8 * size;
            match scalar {
                Scalar::Bool => i64::from(value != 0),
                _ if scalar.is_signed() => ((value << unused) as i64) >> unused,
                _ => value as i64,
            }
        })
        .collect())
}

fn read_text(
    path: &Path,
    bytes: &[u8],
    scalar: Scalar,
    place: Span,
) -> Result<Arc<[i64]>, Diagnostic> {
    let name = path.display();
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
        Diagnostic::new(
            Kind::Input,
            place,
            format!("{name}:{line}: the file is not UTF-8"),
            "save it as text, or name it .bin where it is binary",
        )
    })?;
    let mut values = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let data = line.split('#').next().unwrap_or("");
        let entries = data.split(|c: char| c.is_whitespace() || c == ',' || c == ';');
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let line = number + 1;
            let Some(integer) = parse_integer(entry) else {
                let shown: String = entry.chars().take(40).collect();
                return Err(Diagnostic::new(
                    Kind::Input,
                    place,
                    format!("{name}:{line}: `{}` is no whole number", shown.escape_debug()),
                    "the file holds whole numbers between commas or white space; `#` starts a \
                     comment",
                ));
            };
            let Some(value) = ParamValue::of_type(scalar, integer) else {
                return Err(Diagnostic::new(
                    Kind::Input,
                    place,
                    format!("{name}:{line}: {integer} does not fit in an element"),
                    "give the buffer a wider type, or correct the file",
                ));
            };
            values.push(value.value);
            if values.len() as u64 > MAX_CONTENTS {
                return Err(too_many(place));
            }
        }
    }
    Ok(values.into())
}

fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        // from_str_radix would take a second sign.
        Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => {
            i128::from_str_radix(hex, 16).ok()?
        }
        Some(_) => return None,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Span = Span::new(SourceId(0), 0, 1);

    fn read(name: &str, bytes: &[u8], scalar: Scalar) -> Result<Vec<i64>, String> {
        read_values(Path::new(name), bytes, scalar, HERE)
            .map(|values| values.to_vec())
            .map_err(|error| error.message)
    }

    #[test]
    fn binary_files_are_little_endian_and_signed_as_the_type() {
        assert_eq!(read("a.bin", &[1, 0, 255, 255], Scalar::I16), Ok(vec![1, -1]));
        assert_eq!(read("a.raw", &[1, 0, 255, 255], Scalar::U16), Ok(vec![1, 65535]));
        let ones = [0xff; 8];
        assert_eq!(read("a.bin", &ones, Scalar::U64), Ok(vec![-1]));
        assert_eq!(read("a.bin", &ones, Scalar::I32), Ok(vec![-1, -1]));
        assert_eq!(
            read("a.bin", &[0; 6], Scalar::I32),
            Err("the file has 6 bytes, which is no multiple of 4".into())
        );
    }

    #[test]
    fn text_files_hold_numbers_and_comments() {
        let text = "# row, col\n1, 2;3\r\n\t-4 0x1F # five\n\n+6";
        assert_eq!(read("a.csv", text.as_bytes(), Scalar::I32), Ok(vec![1, 2, 3, -4, 31, 6]));
        assert_eq!(
            read("a.txt", b"1\nrow\n", Scalar::I32),
            Err("a.txt:2: `row` is no whole number".into())
        );
        assert_eq!(
            read("a.txt", b"1\n\n256\n", Scalar::U8),
            Err("a.txt:3: 256 does not fit in an element".into())
        );
        assert_eq!(
            read("a.txt", b"1\n2 \xff", Scalar::U8),
            Err("a.txt:2: the file is not UTF-8".into())
        );
        for bad in ["1.5", "--1", "0x", "0x-1", "1e3", "\u{feff}"] {
            assert!(read("a.txt", format!("1 {bad}").as_bytes(), Scalar::I64).is_err(), "{bad}");
        }
        assert!(read("a.dat", b"1", Scalar::I32).is_err());
    }
}

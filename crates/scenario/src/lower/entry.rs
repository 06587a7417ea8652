//! The kernel: which function it is, and what its parameters are bound to.

use super::context::{Binding, Failed, Lowered, Lowerer, article};
use super::decl::{Declared, Named, Specifiers, innermost};
use super::functions::{TemplateArgument, assigned_names, parameters};
use super::items::{Function, Items};
use super::parse::{Shape, Unit};
use super::value::{Leaf, Pointer, Target, Value};
use super::{Code, Entry, Environment, Origin, fold, suggest};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::{BufferId, Expr, ExprKind, Program, Scalar, ValueType};
use crate::run::{Argument, KernelText, ParamValue};
use crate::source::Span;
use crate::types::{self, Type};
use std::ops::Range;
use tree_sitter::Node;

/// Lowers the entry of a unit.
pub(crate) fn kernel(
    unit: &Unit,
    shape: Shape,
    entry: &Entry,
    env: &Environment<'_>,
) -> Result<(Program, KernelText), Vec<Diagnostic>> {
    let items = if shape == Shape::File { Items::collect(unit) } else { Items::default() };
    let mut lowerer = Lowerer::new(unit, env, items);
    lowerer.bind_params();
    let text =
        if shape == Shape::File { lowerer.file_kernel(entry) } else { lowerer.body_kernel(entry) };
    if text.is_ok() {
        lowerer.finish();
    }
    let mut errors = std::mem::take(&mut lowerer.errors);
    match text {
        Ok(text) if errors.is_empty() => Ok((lowerer.program, text)),
        _ => {
            errors.sort_by_key(|error| error.primary.as_ref().map(|(span, _)| span.start));
            errors.dedup_by(|a, b| {
                a.message == b.message
                    && a.primary.as_ref().map(|p| p.0) == b.primary.as_ref().map(|p| p.0)
            });
            if errors.is_empty() {
                // A failure is always recorded; should one not be, this is not
                // a program all the same.
                errors.push(Diagnostic::whole_file(
                    Kind::NotModelled,
                    "not modelled: this kernel",
                    "simplify it, or report it",
                ));
            }
            Err(errors)
        }
    }
}

impl<'a> Lowerer<'a> {
    /// Binds the scenario's parameters in the outermost scope.
    pub(crate) fn bind_params(&mut self) {
        let span = self.unit.code.span(0, 0);
        for (name, param) in self.env.params {
            let value = param_value(*param, span);
            self.scopes[0].insert(name.clone(), Binding::Value(value));
        }
    }

    /// Binds the buffers by their names in the outermost scope.
    pub(crate) fn bind_buffers(&mut self) {
        for (index, buffer) in self.env.buffers.iter().enumerate() {
            self.scopes[0].insert(buffer.name.clone(), Binding::Buffer(BufferId(index)));
        }
    }

    /// A kernel that is the statements of a body.
    fn body_kernel(&mut self, entry: &Entry) -> Lowered<KernelText> {
        let unit = self.unit;
        self.macro_errors(0..u32::MAX)?;
        if let Entry::Named(name, span) = entry {
            return Err(self.fail(Diagnostic::new(
                Kind::UnknownName,
                *span,
                format!("no kernel `{name}`: the code is a body, without a function"),
                "remove `entry`, or write the whole __global__ function",
            )));
        }
        self.bind_buffers();
        let root = unit.tree.root_node();
        let function = root.named_child(0).filter(|node| node.kind() == "function_definition");
        let body = function.and_then(|function| function.child_by_field_name("body"));
        let Some(body) = body.filter(|_| !root.has_error() && root.named_child_count() == 1) else {
            return Err(self.syntax_errors(root));
        };
        self.lowered.push(0..u32::MAX);
        self.body = Some(body);
        self.assigned = assigned_names(unit, body);
        self.scoped(|this| this.block_statement(body));
        Ok(KernelText {
            structs: self.struct_text(),
            code: unit.code.text.clone(),
            entry: None,
            parameters: Vec::new(),
            arguments: Vec::new(),
        })
    }

    /// A kernel that is a function of a file.
    fn file_kernel(&mut self, entry: &Entry) -> Lowered<KernelText> {
        let (function, explicit) = self.entry_function(entry)?;
        self.scopes.push(Default::default());
        let types = self.argument_types(&parameters(function.declarator));
        let bound = self.deduce_from_types(
            &function,
            &parameters(function.declarator),
            &types,
            explicit,
            function.declarator,
        )?;
        let instance = self.instance_name(function.name, &bound);
        let twins = self.items.functions.get(function.name).cloned().unwrap_or_default();
        let special = self.specialisation(&twins, &function, &bound)?;
        let templated = function.template.is_some();
        let (function, bound) = match special {
            Some(special) => (special, Vec::new()),
            None => (function, bound),
        };

        let range = self.unit.range(function.node);
        self.macro_errors(range.clone())?;
        if function.node.has_error() {
            return Err(self.syntax_errors(function.node));
        }
        let Some(body) = function.node.child_by_field_name("body") else { return Err(Failed) };
        self.lowered.push(range);
        self.body = Some(body);
        self.assigned = assigned_names(self.unit, body);
        self.instance = self.instance_name("", &bound);
        self.calls.push((function.node.start_byte(), self.instance.clone()));
        self.bind_template(function.declarator, function.template, bound)?;
        let (mut names, mut arguments) = (Vec::new(), Vec::new());
        let mut bound_all = true;
        for parameter in parameters(function.declarator) {
            match self.bind_kernel_parameter(parameter) {
                Ok((name, argument)) => {
                    names.push(name);
                    arguments.push(argument);
                }
                // All unbound parameters are told at once.
                Err(Failed) => {
                    bound_all = false;
                    if let Some(name) = parameter
                        .child_by_field_name("declarator")
                        .and_then(super::items::declared_name)
                    {
                        self.bind(self.text(name), Binding::Poisoned);
                    }
                }
            }
        }
        self.scoped(|this| this.block_statement(body));
        if !bound_all {
            return Err(Failed);
        }
        let entry = if templated && !instance.ends_with("<>") {
            instance
        } else {
            function.name.to_owned()
        };
        let mut path: Vec<&str> = function.path.clone();
        path.push(&entry);
        Ok(KernelText {
            structs: self.struct_text(),
            code: self.unit.code.text.clone(),
            entry: Some(path.join("::")),
            parameters: names,
            arguments,
        })
    }

    /// The scenario's structs as CUDA C, but for those that the file defines.
    fn struct_text(&self) -> String {
        let structs = self.env.structs;
        let mut text = String::new();
        for layout in structs.own() {
            if self.items.types.contains_key(layout.name.as_str()) {
                continue;
            }
            let natural =
                layout.fields.iter().map(|field| structs.align_of(&field.ty)).max().unwrap_or(1);
            let align = if layout.align > natural {
                format!("__align__({}) ", layout.align)
            } else {
                String::new()
            };
            text.push_str(&format!("struct {align}{} {{\n", layout.name));
            for field in &layout.fields {
                let (ty, _) = innermost(&field.ty);
                let lengths = structs.name_of(&field.ty);
                let lengths = lengths.find('[').map_or("", |at| &lengths[at..]);
                text.push_str(&format!("    {} {}{lengths};\n", structs.name_of(ty), field.name));
            }
            text.push_str("};\n");
        }
        text
    }

    /// Reports what went wrong with macros in a part of the code.
    fn macro_errors(&mut self, range: Range<u32>) -> Lowered<()> {
        let unit = self.unit;
        let mut result = Ok(());
        for (place, error) in &unit.macro_errors {
            if range.contains(&place.start) {
                let span = unit.code.span(place.start as usize, place.end as usize);
                let name =
                    unit.code.text.get(place.start as usize..place.end as usize).unwrap_or("");
                let name = name.split('(').next().unwrap_or(name).trim();
                result = Err(self.fail(error.diagnostic(span, name)));
            }
        }
        // What a broken macro left of the text is not worth reading.
        result
    }

    /// The function that is asked for, and its template arguments.
    fn entry_function(&mut self, entry: &Entry) -> Lowered<(Function<'a>, Vec<TemplateArgument>)> {
        let kernels: Vec<Function<'a>> = self.items.kernels().into_iter().cloned().collect();
        let names: Vec<String> =
            kernels.iter().map(|kernel| qualified(kernel).join("::")).collect();
        let listed = match names.as_slice() {
            [] => "the file has no __global__ function".to_owned(),
            names => format!("its kernels are: {}", names.join(", ")),
        };
        match entry {
            Entry::Only => match kernels.as_slice() {
                [kernel] => Ok((kernel.clone(), Vec::new())),
                [] => Err(self.fail(Diagnostic::new(
                    Kind::UnknownName,
                    self.unit.code.span(0, 0),
                    "there is no __global__ function to run",
                    "write the kernel as a __global__ function, or just its body",
                ))),
                [first, second, ..] => {
                    let span = self.span(second.declarator);
                    let also = self.span(first.declarator);
                    Err(self.fail(
                        Diagnostic::new(
                            Kind::UnknownName,
                            span,
                            "there is more than one kernel",
                            format!("name one with `entry = \"…\"`; {listed}"),
                        )
                        .also(also, "the first"),
                    ))
                }
            },
            Entry::Named(text, span) => {
                let (name, arguments) = match text.split_once('<') {
                    Some((name, rest)) => (name.trim(), rest.trim_end().strip_suffix('>')),
                    None => (text.trim(), None),
                };
                let path: Vec<&str> = name.split("::").filter(|part| !part.is_empty()).collect();
                let found = kernels.into_iter().find(|kernel| {
                    let full = qualified(kernel);
                    full.ends_with(&path)
                });
                let Some(kernel) = found else {
                    let near = suggest::nearest(name, names.iter().map(String::as_str));
                    let help = match near {
                        Some(near) => format!("did you mean `{near}`? {listed}"),
                        None => listed,
                    };
                    return Err(self.fail(Diagnostic::new(
                        Kind::UnknownName,
                        *span,
                        format!("no kernel `{name}` in this file"),
                        help,
                    )));
                };
                let arguments = match arguments {
                    Some(arguments) => self.entry_arguments(arguments, *span)?,
                    None => Vec::new(),
                };
                Ok((kernel, arguments))
            }
        }
    }

    /// The template arguments of `entry = "copy<float, TILE>"`.
    fn entry_arguments(&mut self, text: &str, span: Span) -> Lowered<Vec<TemplateArgument>> {
        let mut arguments = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let words: Vec<_> = part.split_whitespace().collect();
            let ty = match types::type_of_words(&words) {
                Some(ty) => Some(ty),
                None => match self.items.types.get(part) {
                    Some(_) => self.file_type(part)?,
                    None => self.structs.by_name(part).map(Type::Struct),
                },
            };
            if let Some(ty) = ty {
                arguments.push(TemplateArgument::Type(ty));
                continue;
            }
            let offsets = vec![span.start; part.len()].into_iter().chain([span.end]).collect();
            let code =
                Code { text: part.into(), source: span.source, origin: Origin::Mapped(offsets) };
            match super::constant(&code, self.env) {
                Ok(value) => {
                    let value = fold::constant(value.ty, value.value, span);
                    arguments.push(TemplateArgument::Value(Value::int(value)));
                }
                Err(error) if error.kind == Kind::UnknownName => {
                    let names = self.visible_names();
                    let names = names.iter().map(String::as_str);
                    let known = names.chain(types::COMMON_NAMES.iter().copied());
                    let help = match suggest::nearest(part, known) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "use a type, or a constant of literals and parameters".to_owned(),
                    };
                    let message = format!("unknown template argument `{part}`");
                    let error = Diagnostic::new(Kind::UnknownName, span, message, help);
                    return Err(self.fail(error));
                }
                Err(mut error) => {
                    if let Some(primary) = &mut error.primary {
                        primary.0 = span;
                    }
                    return Err(self.fail(error));
                }
            }
        }
        Ok(arguments)
    }

    /// A type that the file defines, by name.
    pub(super) fn file_type(&mut self, name: &str) -> Lowered<Option<Type>> {
        let root = self.unit.tree.root_node();
        match self.named_type(root, name)? {
            Named::Type(ty) => Ok(Some(ty)),
            _ => Ok(None),
        }
    }

    /// The types of what the kernel's parameters are bound to, to deduce
    /// template arguments from.
    fn argument_types(&self, parameters: &[Node<'a>]) -> Vec<Option<Type>> {
        parameters
            .iter()
            .map(|parameter| {
                let name = parameter
                    .child_by_field_name("declarator")
                    .and_then(super::items::declared_name)?;
                let name = self.text(name);
                let buffer = self.env.buffers.iter().position(|buffer| buffer.name == name);
                if let Some(index) = buffer {
                    let element = self.env.buffer_types.get(index)?;
                    return Some(Type::Pointer(Box::new(element.clone())));
                }
                let param = self.env.params.iter().find(|(param, _)| param == name)?;
                Some(Type::Scalar(param.1.ty))
            })
            .collect()
    }

    /// Binds a parameter of the kernel to the buffer or parameter of its name.
    fn bind_kernel_parameter(&mut self, parameter: Node<'a>) -> Lowered<(String, Argument)> {
        let (declared, _) = self.parameter_type(parameter)?;
        let Some(name) = declared.name else {
            return Err(self.type_error(
                parameter,
                "a kernel's parameter without a name cannot be bound",
                "give it the name of a buffer or parameter of the scenario",
            ));
        };
        let text = self.text(name);
        if declared.reference {
            return Err(self.type_error(
                name,
                "a kernel's parameter cannot be a reference",
                "pass a pointer, or the value",
            ));
        }
        let (value, argument) = self.kernel_argument(&declared, name, text)?;
        if self.assigned.contains(text) {
            self.declare_variable(name, declared, Some(value), &Specifiers::default())?;
        } else {
            self.bind(text, Binding::Value(value));
        }
        Ok((text.to_owned(), argument))
    }

    /// What a parameter of the kernel is bound to.
    fn kernel_argument(
        &mut self,
        declared: &Declared<'a>,
        name: Node<'a>,
        text: &str,
    ) -> Lowered<(Value, Argument)> {
        let span = self.span(name);
        let buffer = self.env.buffers.iter().position(|buffer| buffer.name == text);
        let param =
            self.env.params.iter().find(|(param, _)| param == text).map(|(_, value)| *value);
        match &declared.ty {
            Type::Pointer(pointee) => {
                let Some(index) = buffer else {
                    if param.is_some() {
                        return Err(self.mismatch(name, text, declared, "a number of [params]"));
                    }
                    return Err(self.unbound(name, text, declared));
                };
                self.check_element(index, pointee, name, text)?;
                let kind = ExprKind::BufferBase(BufferId(index));
                let address = Expr { kind, ty: ValueType::Pointer, span };
                let value = Value::pointer(address, (**pointee).clone(), declared.pointee);
                Ok((value, Argument::Buffer(BufferId(index))))
            }
            Type::Scalar(scalar) => {
                if let Some(param) = param {
                    let value = self.convert(param_value(param, span), &declared.ty, name)?;
                    return Ok((value, Argument::Param(param)));
                }
                if buffer.is_some() {
                    return Err(self.mismatch(name, text, declared, "a buffer"));
                }
                if scalar.is_float() {
                    // It touches no address: any value will do.
                    return Ok((Value::float(*scalar, None), Argument::Any));
                }
                match self.only_pitch().filter(|_| text.to_lowercase().contains("pitch")) {
                    Some(pitch) => {
                        let value = fold::constant(Scalar::U64, pitch as i64, span);
                        let value = self.convert(Value::int(value), &declared.ty, name)?;
                        Ok((value, Argument::Pitch(pitch)))
                    }
                    None => Err(self.unbound(name, text, declared)),
                }
            }
            Type::Struct(id) if self.structs.get(*id).name == "cudaPitchedPtr" => match buffer {
                Some(index) => {
                    let value = self.pitched(index, declared.ty.clone(), span);
                    Ok((value, Argument::PitchedBuffer(BufferId(index))))
                }
                None => Err(self.unbound(name, text, declared)),
            },
            Type::Vector { element, count } if element.is_float() => {
                let value = super::expr::unknown_value(&declared.ty, usize::from(*count));
                Ok((value, Argument::Any))
            }
            _ => {
                let ty = self.structs.name_of(&declared.ty);
                Err(self.not_modelled(
                    name,
                    format!("kernel parameters of type `{ty}`"),
                    "pass its parts as numbers and pointers",
                ))
            }
        }
    }

    /// The pitch of the one buffer that has one.
    fn only_pitch(&self) -> Option<u64> {
        let mut pitches = self.env.buffers.iter().filter_map(|buffer| buffer.pitch);
        let pitch = pitches.next()?;
        pitches.all(|other| other == pitch).then_some(pitch)
    }

    /// A buffer as `cudaMalloc3D` describes it.
    fn pitched(&self, index: usize, ty: Type, span: Span) -> Value {
        let buffer = &self.env.buffers[index];
        let width = buffer.shape.last().copied().unwrap_or(1);
        let row = width.saturating_mul(buffer.element_bytes);
        let height = buffer.shape.iter().rev().nth(1).copied().unwrap_or(1);
        let kind = ExprKind::BufferBase(BufferId(index));
        let address = Expr { kind, ty: ValueType::Pointer, span };
        let size = |value: u64| Leaf::Int(fold::constant(Scalar::U64, value as i64, span));
        let pointer = Pointer { target: Target::Memory(address), qualifiers: Default::default() };
        let leaves = vec![
            Leaf::Pointer(pointer),
            size(buffer.pitch.unwrap_or(row)),
            size(row),
            size(height),
        ];
        Value { ty, leaves }
    }

    /// Checks that a pointer of the kernel fits the buffer's elements.
    fn check_element(
        &mut self,
        index: usize,
        pointee: &Type,
        name: Node<'a>,
        text: &str,
    ) -> Lowered<()> {
        let element = self.env.buffer_types[index].clone();
        let (inner, _) = innermost(pointee);
        let bytes_of = |ty: &Type| matches!(ty.scalar(), Some(scalar) if scalar.bytes() == 1);
        let same_kind = match (inner.scalar(), element.scalar()) {
            // `float4*` to floats, `unsigned*` to ints.
            (Some(a), Some(b)) => a.bytes() == b.bytes() && a.is_float() == b.is_float(),
            _ => false,
        };
        let fits = *inner == Type::Void
            || *inner == element
            || (bytes_of(inner) && matches!(inner, Type::Scalar(_)))
            || bytes_of(&element)
            || same_kind;
        if fits {
            return Ok(());
        }
        let (ours, theirs) = (self.structs.name_of(pointee), self.structs.name_of(&element));
        let span = self.span(name);
        let definition = self.env.buffers[index].span;
        Err(self.fail(
            Diagnostic::new(
                Kind::Type,
                span,
                format!(
                    "wrong type: `{text}` is {} here, its buffer has `{theirs}`s",
                    article(&(ours + "*"))
                ),
                "give the buffer the kernel's type, or the kernel the buffer's",
            )
            .also(definition, "the buffer"),
        ))
    }

    fn mismatch(
        &mut self,
        name: Node<'a>,
        text: &str,
        declared: &Declared<'a>,
        what: &str,
    ) -> Failed {
        let ty = self.structs.name_of(&declared.ty);
        self.type_error(
            name,
            format!(
                "wrong type: the kernel's `{text}` is {}, the scenario's is {what}",
                article(&ty)
            ),
            if matches!(declared.ty, Type::Pointer(_)) {
                "add a buffer of this name to [buffers]"
            } else {
                "add a number of this name to [params], and rename the buffer"
            },
        )
    }

    fn unbound(&mut self, name: Node<'a>, text: &str, declared: &Declared<'a>) -> Failed {
        let span = self.span(name);
        let pointer = matches!(declared.ty, Type::Pointer(_) | Type::Struct(_));
        let names: Vec<&str> = if pointer {
            self.env.buffers.iter().map(|buffer| buffer.name.as_str()).collect()
        } else {
            self.env.params.iter().map(|(name, _)| name.as_str()).collect()
        };
        let (kind, section) =
            if pointer { ("buffer", "[buffers]") } else { ("parameter", "[params]") };
        let there = if names.is_empty() {
            format!("{section} is empty")
        } else {
            format!("{section} has {}", names.join(", "))
        };
        let help = match suggest::nearest(text, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? {there}"),
            None => format!("add `{text}` to {section}; {there}"),
        };
        self.fail(Diagnostic::new(
            Kind::UnknownName,
            span,
            format!("kernel parameter `{text}` is not bound: no {kind} has its name"),
            help,
        ))
    }
}

/// A kernel's name with its namespaces.
fn qualified<'a>(kernel: &Function<'a>) -> Vec<&'a str> {
    let mut full = kernel.path.clone();
    full.push(kernel.name);
    full
}

/// A parameter of the scenario as a value.
fn param_value(param: ParamValue, span: Span) -> Value {
    if param.ty.is_float() {
        return Value::float(param.ty, Some(f64::from_bits(param.value as u64)));
    }
    Value::int(fold::constant(param.ty, param.value, span))
}

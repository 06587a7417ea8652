//! Declarations: specifiers, declarators, types, variables.

use super::context::{Binding, Breaks, Failed, Lowered, Lowerer, article};
use super::fold;
use super::items::{self, TypeItem, TypeKind};
use super::usage::Usage;
use super::value::{
    Constant, Elements, Leaf, LeafType, MAX_LEAVES, Memory, Place, Pointer, Qualifiers, Register,
    Slot, Target, ThreadArray, Value, leaf_count, leaf_types,
};
use crate::diagnostic::{Diagnostic, Kind};
use crate::launch::MAX_STATIC_SHARED_BYTES;
use crate::program::{
    Expr, ExprKind, LocalArray, LocalArrayId, OpaqueReason, Root, Scalar, SharedArray, SharedId,
    StmtKind, ValueType,
};
use crate::types::{self, MAX_BYTES, StructId, StructTable, Type, too_large};
use std::rc::Rc;
use tree_sitter::Node;

/// What a declaration says before its declarators.
#[derive(Clone, Debug, Default)]
pub(crate) struct Specifiers {
    pub(crate) ty: Named,
    pub(crate) constant: bool,
    pub(crate) constexpr: bool,
    pub(crate) volatile: bool,
    pub(crate) shared: bool,
    pub(crate) external: bool,
    /// `__constant__`
    pub(crate) constant_memory: bool,
    /// `__device__`
    pub(crate) device_memory: bool,
    pub(crate) align: Option<u64>,
}

/// What the name of a type stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Named {
    /// A type.
    Type(Type),
    /// `auto`
    #[default]
    Auto,
    /// `cg::thread_block`
    ThreadBlock,
}

/// What a declarator declares.
#[derive(Clone, Debug)]
pub(crate) struct Declared<'a> {
    /// The identifier; none in a cast or an unnamed parameter.
    pub(crate) name: Option<Node<'a>>,
    pub(crate) ty: Type,
    pub(crate) reference: bool,
    /// Whether the outermost array has no length.
    pub(crate) unsized_array: bool,
    /// Whether the variable itself is `const`.
    pub(crate) read_only: bool,
    /// Of what it points or refers to.
    pub(crate) pointee: Qualifiers,
}

impl<'a> Lowerer<'a> {
    // Specifiers

    /// The specifiers of a declaration, parameter, field or type name.
    pub(crate) fn specifiers(&mut self, node: Node<'a>) -> Lowered<Specifiers> {
        let mut specifiers = Specifiers::default();
        let mut cursor = node.walk();
        let children: Vec<_> = node.children(&mut cursor).collect();
        for child in children {
            match child.kind() {
                "type_qualifier" => match self.text(child) {
                    "const" => specifiers.constant = true,
                    "constexpr" | "constinit" => specifiers.constexpr = true,
                    "volatile" => specifiers.volatile = true,
                    "__shared__" => specifiers.shared = true,
                    "__constant__" => specifiers.constant_memory = true,
                    "__device__" | "__managed__" => specifiers.device_memory = true,
                    _ => {
                        if let Some(inner) = child.named_child(0)
                            && inner.kind() == "alignas_qualifier"
                        {
                            self.alignas(inner, &mut specifiers.align)?;
                        }
                    }
                },
                "alignas_qualifier" => self.alignas(child, &mut specifiers.align)?,
                "attribute_specifier" => self.attribute(child, &mut specifiers.align)?,
                "storage_class_specifier" if self.text(child) == "extern" => {
                    specifiers.external = true;
                }
                "__device__" => specifiers.device_memory = true,
                _ => {}
            }
        }
        if let Some(ty) = node.child_by_field_name("type") {
            specifiers.ty = self.type_specifier(ty)?;
        }
        Ok(specifiers)
    }

    /// `alignas(16)`, `alignas(float4)`.
    fn alignas(&mut self, node: Node<'a>, align: &mut Option<u64>) -> Lowered<()> {
        let Some(inner) = node.named_child(0) else { return Ok(()) };
        let value = match inner.kind() {
            "type_descriptor" => {
                let ty = self.type_descriptor(inner)?.ty;
                self.structs.align_of(&ty)
            }
            _ => self.constant_size(inner, "an alignment")?,
        };
        if !value.is_power_of_two() || value > types::MAX_ALIGN {
            return Err(self.type_error(
                inner,
                format!("an alignment of {value} bytes is not possible"),
                format!("use a power of two from 1 to {}", types::MAX_ALIGN),
            ));
        }
        *align = Some(align.unwrap_or(1).max(value));
        Ok(())
    }

    /// `__attribute__((aligned(16)))`
    fn attribute(&mut self, node: Node<'a>, align: &mut Option<u64>) -> Lowered<()> {
        let Some(list) = node.named_child(0) else { return Ok(()) };
        let mut cursor = list.walk();
        let arguments: Vec<_> = list.named_children(&mut cursor).collect();
        for argument in arguments {
            match self.text(argument.child_by_field_name("function").unwrap_or(argument)) {
                "packed" | "__packed__" => {
                    return Err(self.not_modelled(
                        argument,
                        "packed structs, which nvcc reads byte by byte",
                        "remove the attribute, or read the bytes through a char pointer",
                    ));
                }
                "aligned" | "__aligned__" => {
                    if let Some(value) = argument
                        .child_by_field_name("arguments")
                        .and_then(|arguments| arguments.named_child(0))
                    {
                        let value = self.constant_size(value, "an alignment")?;
                        if value.is_power_of_two() && value <= types::MAX_ALIGN {
                            *align = Some(align.unwrap_or(1).max(value));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    // Types

    /// A type as the first part of a declaration names it.
    pub(crate) fn type_specifier(&mut self, node: Node<'a>) -> Lowered<Named> {
        self.nested(node, |this| this.type_specifier_inner(node))
    }

    fn type_specifier_inner(&mut self, node: Node<'a>) -> Lowered<Named> {
        let text = self.text(node);
        let ty = match node.kind() {
            "primitive_type" => match types::type_of_word(text) {
                Some(ty) => ty,
                None => return Err(self.unknown_name(node, text, "type")),
            },
            "sized_type_specifier" => {
                let words: Vec<_> = text.split_whitespace().collect();
                match types::type_of_words(&words) {
                    Some(ty) => ty,
                    None => {
                        return Err(self.type_error(
                            node,
                            format!("`{text}` is no type"),
                            "write one such as `unsigned int` or `long long`",
                        ));
                    }
                }
            }
            "type_identifier" | "identifier" | "namespace_identifier" => {
                return self.named_type(node, text);
            }
            "struct_specifier" | "class_specifier" => {
                if node.child_by_field_name("body").is_some() {
                    Type::Struct(self.define_struct(node, None)?)
                } else if let Some(name) = node.child_by_field_name("name") {
                    return self.type_specifier(name);
                } else {
                    return Err(self.not_modelled(node, "this struct", "give it fields"));
                }
            }
            "union_specifier" => return Err(self.union(node)),
            "enum_specifier" => {
                if node.child_by_field_name("body").is_some() {
                    for index in 0..items::enumerators(node).len() {
                        let (name, _) = items::enumerators(node)[index];
                        let value = self.enumerator(node, index)?;
                        let name = self.text(name);
                        self.bind(name, Binding::Value(value));
                    }
                }
                self.enum_type(node)?
            }
            "qualified_identifier" => {
                if text.ends_with("thread_block") && is_cooperative_groups(text) {
                    return Ok(Named::ThreadBlock);
                }
                if super::builtins::outside(text).is_some() {
                    return Err(self.outside(node));
                }
                match node.child_by_field_name("name") {
                    Some(name) => return self.type_specifier(name),
                    None => return Err(self.unknown_name(node, text, "type")),
                }
            }
            "template_type" => return self.template_type(node),
            "placeholder_type_specifier" | "auto" => return Ok(Named::Auto),
            "dependent_type" => match node.named_child(0) {
                Some(inner) => return self.type_specifier(inner),
                None => return Err(self.unknown_name(node, text, "type")),
            },
            "decltype" => {
                let Some(inner) = node.named_child(0).filter(|inner| inner.kind() != "auto") else {
                    return Ok(Named::Auto);
                };
                self.type_of(inner)?
            }
            _ => {
                return Err(self.not_modelled(
                    node,
                    format!("the type `{text}`"),
                    "use CUDA's scalar and vector types, structs, arrays and pointers",
                ));
            }
        };
        Ok(Named::Type(ty))
    }

    /// A type by its name.
    pub(crate) fn named_type(&mut self, node: Node<'a>, name: &str) -> Lowered<Named> {
        match self.local_binding(name) {
            Some(Binding::Type(ty)) => return Ok(Named::Type(ty.clone())),
            Some(Binding::Poisoned) => return Err(Failed),
            _ => {}
        }
        if let Some(item) = self.items.types.get(name).copied() {
            if item.template.is_some() {
                return Err(self.type_error(
                    node,
                    format!("`{name}` is a template"),
                    format!("give its arguments: `{name}<…>`"),
                ));
            }
            return self.item_type(node, name, item);
        }
        if let Some(id) = self.structs.by_name(name) {
            return Ok(Named::Type(Type::Struct(id)));
        }
        if let Some(ty) = types::type_of_word(name) {
            return Ok(Named::Type(ty));
        }
        match name {
            "thread_block" => Ok(Named::ThreadBlock),
            "cudaPitchedPtr" => Ok(Named::Type(Type::Struct(self.pitched_pointer()))),
            _ => Err(self.unknown_name(node, name, "type")),
        }
    }

    /// A type that the file defines, resolved once.
    fn item_type(&mut self, node: Node<'a>, name: &str, item: TypeItem<'a>) -> Lowered<Named> {
        if !self.resolving.insert(name.to_owned()) {
            return Err(self.type_error(
                node,
                format!("type `{name}` contains itself"),
                "use an index instead of a nested object",
            ));
        }
        let resolved = self.at_file_scope(|this| match item.kind {
            TypeKind::Struct(node) => this
                .define_struct(node, Some(name.to_owned()))
                .map(|id| Named::Type(Type::Struct(id))),
            TypeKind::Union(node) => Err(this.union(node)),
            TypeKind::Enum(node) => this.enum_type(node).map(Named::Type),
            TypeKind::Typedef(definition, declarator) => this.typedef(definition, declarator),
            TypeKind::Alias(node) => match node.child_by_field_name("type") {
                Some(ty) => this.type_descriptor_named(ty),
                None => Err(Failed),
            },
        });
        self.resolving.remove(name);
        let binding = match &resolved {
            Ok(Named::Type(ty)) => Binding::Type(ty.clone()),
            Ok(_) => return resolved,
            Err(_) => Binding::Poisoned,
        };
        self.scopes[0].insert(name.to_owned(), binding);
        resolved
    }

    /// Runs `inner` with only the file's names in scope.
    pub(crate) fn at_file_scope<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        let scopes = self.scopes.split_off(1);
        let result = inner(self);
        self.scopes.truncate(1);
        self.scopes.extend(scopes);
        result
    }

    fn union(&mut self, node: Node<'a>) -> Failed {
        self.not_modelled(node, "unions", "use a struct, or cast a pointer to the bytes")
    }

    fn typedef(&mut self, definition: Node<'a>, declarator: Node<'a>) -> Lowered<Named> {
        let specifiers = match definition.child_by_field_name("type") {
            // `typedef struct { … } Name;`
            Some(ty)
                if matches!(ty.kind(), "struct_specifier" | "class_specifier")
                    && ty.child_by_field_name("body").is_some()
                    && ty.child_by_field_name("name").is_none()
                    && declarator.kind() == "type_identifier" =>
            {
                let name = self.text(declarator).to_owned();
                return Ok(Named::Type(Type::Struct(self.define_struct(ty, Some(name))?)));
            }
            _ => self.specifiers(definition)?,
        };
        match specifiers.ty {
            Named::Type(base) => Ok(Named::Type(self.declarator(declarator, base)?.ty)),
            other => Ok(other),
        }
    }

    /// The type of an `enum`: its base, else `int`.
    fn enum_type(&mut self, node: Node<'a>) -> Lowered<Type> {
        match node.child_by_field_name("base") {
            None => Ok(Type::Scalar(Scalar::I32)),
            Some(base) => match self.type_specifier(base)? {
                Named::Type(ty) => Ok(ty),
                _ => Ok(Type::Scalar(Scalar::I32)),
            },
        }
    }

    /// The value of an `enum`'s name.
    pub(crate) fn enumerator(&mut self, specifier: Node<'a>, index: usize) -> Lowered<Value> {
        let ty = self.enum_type(specifier)?;
        let scalar = ty.scalar().unwrap_or(Scalar::I32);
        let names = items::enumerators(specifier);
        // The last explicit value at or before it, and how many names further.
        let explicit = names[..=index].iter().rposition(|(_, value)| value.is_some());
        let (base, steps) = match explicit.and_then(|at| Some((at, names[at].1?))) {
            Some((at, value)) => (self.constant_int(value, "an enumerator")?.1, index - at),
            None => (0, index),
        };
        let span = self.span(names[index].0);
        let value = base.wrapping_add(steps as i64);
        Ok(Value { ty, leaves: vec![Leaf::Int(fold::constant(scalar, value, span))] })
    }

    /// `Name<arguments>` where the file defines the template.
    fn template_type(&mut self, node: Node<'a>) -> Lowered<Named> {
        let Some(name) = node.child_by_field_name("name") else { return Err(Failed) };
        let name = self.text(name);
        self.instance_type(node, name, node.child_by_field_name("arguments"))
    }

    /// The type that a template of the file makes of arguments.
    pub(crate) fn instance_type(
        &mut self,
        node: Node<'a>,
        name: &str,
        arguments: Option<Node<'a>>,
    ) -> Lowered<Named> {
        let Some(item) = self.items.types.get(name).copied() else {
            return Err(self.not_modelled(
                node,
                format!("the template `{name}`"),
                "use CUDA's scalar and vector types, structs, arrays and pointers",
            ));
        };
        let arguments = self.template_arguments(arguments)?;
        let key = self.instance_name(name, &arguments);
        // A specialisation is written with its arguments.
        if let Some(special) = self.items.types.get(key.as_str()).copied() {
            return self.item_type(node, &key, special);
        }
        match self.scopes[0].get(&key) {
            Some(Binding::Type(ty)) => return Ok(Named::Type(ty.clone())),
            Some(Binding::Poisoned) => return Err(Failed),
            _ => {}
        }
        let resolved = self.at_file_scope(|this| {
            this.scoped(|this| {
                this.bind_template(node, item.template, arguments)?;
                match item.kind {
                    TypeKind::Struct(body) => this
                        .define_struct(body, Some(key.clone()))
                        .map(|id| Named::Type(Type::Struct(id))),
                    TypeKind::Alias(alias) => match alias.child_by_field_name("type") {
                        Some(ty) => this.type_descriptor_named(ty),
                        None => Err(Failed),
                    },
                    _ => Err(this.not_modelled(node, "this template", "write the type out")),
                }
            })
        });
        let binding = match &resolved {
            Ok(Named::Type(ty)) => Binding::Type(ty.clone()),
            Ok(_) => return resolved,
            Err(_) => Binding::Poisoned,
        };
        self.scopes[0].insert(key, binding);
        resolved
    }

    /// `cudaPitchedPtr`, as CUDA's headers define it.
    pub(crate) fn pitched_pointer(&mut self) -> StructId {
        const NAME: &str = "cudaPitchedPtr";
        if let Some(id) = self.structs.by_name(NAME) {
            return id;
        }
        let size = Type::Scalar(Scalar::U64);
        let fields = [
            ("ptr", Type::Pointer(Box::new(Type::Void))),
            ("pitch", size.clone()),
            ("xsize", size.clone()),
            ("ysize", size),
        ];
        let fields = fields
            .into_iter()
            .zip((0..).step_by(8))
            .map(|((name, ty), offset)| types::Field { name: name.to_owned(), ty, offset })
            .collect();
        self.structs.structs.push(types::StructLayout {
            name: NAME.to_owned(),
            fields,
            bytes: 32,
            align: 8,
        });
        StructId(self.structs.structs.len() - 1)
    }

    /// Defines the struct of a `struct_specifier` with a body.
    fn define_struct(&mut self, node: Node<'a>, name: Option<String>) -> Lowered<StructId> {
        let id = self.lay_out_struct(node, name)?;
        if let Some(body) = node.child_by_field_name("body") {
            let names = match self.scopes.as_slice() {
                [_, template] => template.clone(),
                _ => Default::default(),
            };
            self.struct_bodies.insert(id, (body, names));
        }
        Ok(id)
    }

    fn lay_out_struct(&mut self, node: Node<'a>, name: Option<String>) -> Lowered<StructId> {
        let name_node = node.child_by_field_name("name");
        let local = name.is_none();
        let name = name
            .or_else(|| name_node.map(|name| self.text(name).to_owned()))
            .unwrap_or_else(|| format!("struct at byte {}", node.start_byte()));
        let Some(body) = node.child_by_field_name("body") else { return Err(Failed) };
        let mut align = None;
        let mut cursor = node.walk();
        let parts: Vec<_> = node.named_children(&mut cursor).collect();
        for part in parts {
            match part.kind() {
                "alignas_qualifier" => self.alignas(part, &mut align)?,
                "attribute_specifier" => self.attribute(part, &mut align)?,
                "base_class_clause" => {
                    return Err(self.not_modelled(
                        part,
                        "inheritance",
                        "write the base's fields into the struct",
                    ));
                }
                _ => {}
            }
        }
        let mut fields = Vec::new();
        let mut cursor = body.walk();
        let members: Vec<_> = body.named_children(&mut cursor).collect();
        for member in members {
            match member.kind() {
                "field_declaration" => self.fields(member, &mut fields)?,
                "ERROR" => return Err(self.syntax_error(member)),
                // Functions, access specifiers and types take no space; a
                // virtual function does.
                _ if self.text(member).starts_with("virtual") => {
                    return Err(self.not_modelled(member, "virtual functions", "call it directly"));
                }
                _ => {}
            }
        }
        let span = self.span(name_node.unwrap_or(node));
        // A struct without data, such as a functor, has one byte in C++.
        if fields.is_empty() {
            self.structs.structs.push(types::StructLayout {
                name,
                fields: Vec::new(),
                bytes: 1,
                align: 1,
            });
            return Ok(StructId(self.structs.structs.len() - 1));
        }
        let twin = self.structs.by_name(&name);
        let mut table = self.structs.clone();
        if let Some(twin) = twin {
            table.structs[twin.0].name.clear();
        }
        let id = match table.lay_out(&name, fields, align, span) {
            Ok(id) => id,
            Err(error) => return Err(self.fail(error)),
        };
        match twin {
            Some(twin) => {
                let (ours, theirs) = (table.get(id), self.structs.get(twin));
                if ours == theirs {
                    return Ok(twin);
                }
                if local {
                    // A local struct hides the other one.
                    let layout = ours.clone();
                    self.structs.structs.push(layout);
                    return Ok(StructId(self.structs.structs.len() - 1));
                }
                let message = format!(
                    "struct `{name}` has {} bytes here and {} bytes in the scenario file, or \
                     other fields",
                    ours.bytes, theirs.bytes,
                );
                Err(self.fail(Diagnostic::new(
                    Kind::Type,
                    span,
                    message,
                    "make both definitions the same, or remove one",
                )))
            }
            None => {
                self.structs = table;
                Ok(id)
            }
        }
    }

    /// The fields of one `field_declaration`.
    fn fields(
        &mut self,
        node: Node<'a>,
        fields: &mut Vec<(String, Type, crate::source::Span)>,
    ) -> Lowered<()> {
        let text = self.text(node);
        if text.starts_with("static") {
            return Ok(());
        }
        if text.starts_with("virtual") {
            return Err(self.not_modelled(node, "virtual functions", "call it directly"));
        }
        let mut cursor = node.walk();
        let declarators: Vec<_> = node.children_by_field_name("declarator", &mut cursor).collect();
        if declarators.iter().all(|declarator| items::function_declarator(*declarator).is_some())
            && !declarators.is_empty()
        {
            return Ok(());
        }
        let mut cursor = node.walk();
        if let Some(bits) =
            node.named_children(&mut cursor).find(|child| child.kind() == "bitfield_clause")
        {
            return Err(self.not_modelled(bits, "bit-fields", "use shifts and masks"));
        }
        let specifiers = self.specifiers(node)?;
        let Named::Type(base) = specifiers.ty else {
            return Err(self.type_error(node, "a field needs a type", "write the type out"));
        };
        for declarator in declarators {
            let declared = self.declarator(declarator, base.clone())?;
            if declared.reference || declared.unsized_array {
                return Err(self.not_modelled(
                    declarator,
                    "references and arrays without length in structs",
                    "give the array a length",
                ));
            }
            if let Some(name) = declared.name {
                let span = self.span(declarator);
                fields.push((self.text(name).to_owned(), declared.ty, span));
            }
        }
        Ok(())
    }

    /// Name and type of a declaration of one field.
    pub(crate) fn field_type(&mut self, node: Node<'a>) -> Lowered<(String, Type)> {
        let mut fields = Vec::new();
        self.fields(node, &mut fields)?;
        match fields.pop() {
            Some((name, ty, _)) if fields.is_empty() => Ok((name, ty)),
            _ => Err(self.type_error(
                node,
                "one field is needed here",
                "write each field as its own string: \"float x\", \"float y\"",
            )),
        }
    }

    // Declarators

    /// Applies a declarator, named or abstract, to the type before it.
    pub(crate) fn declarator(&mut self, node: Node<'a>, base: Type) -> Lowered<Declared<'a>> {
        self.nested(node, |this| this.declarator_inner(node, base))
    }

    fn declarator_inner(&mut self, node: Node<'a>, base: Type) -> Lowered<Declared<'a>> {
        let kind = node.kind();
        let simple = |name, ty| Declared {
            name,
            ty,
            reference: false,
            unsized_array: false,
            read_only: false,
            pointee: Qualifiers::default(),
        };
        match kind {
            "identifier" | "field_identifier" | "type_identifier" | "primitive_type" => {
                Ok(simple(Some(node), base))
            }
            "pointer_declarator" | "abstract_pointer_declarator" => {
                let ty = Type::Pointer(Box::new(base));
                let mut declared = match items::inner_declarator(node) {
                    Some(inner) => self.declarator(inner, ty)?,
                    None => simple(None, ty),
                };
                let mut cursor = node.walk();
                let read_only = node
                    .named_children(&mut cursor)
                    .any(|child| child.kind() == "type_qualifier" && self.text(child) == "const");
                declared.read_only |= read_only;
                Ok(declared)
            }
            "reference_declarator" | "abstract_reference_declarator" => {
                let mut declared = match items::inner_declarator(node) {
                    Some(inner) => self.declarator(inner, base)?,
                    None => simple(None, base),
                };
                declared.reference = true;
                Ok(declared)
            }
            "array_declarator" | "abstract_array_declarator" => {
                let len = match node.child_by_field_name("size") {
                    Some(size) if size.is_named() => {
                        let len = self.constant_size(size, "an array length")?;
                        if len == 0 {
                            return Err(self.type_error(
                                size,
                                "an array of length 0",
                                "give it at least one element",
                            ));
                        }
                        Some(len)
                    }
                    _ => None,
                };
                let bytes = self.structs.size_of(&base).saturating_mul(len.unwrap_or(1));
                if bytes > MAX_BYTES {
                    let span = self.span(node);
                    return Err(self.fail(too_large(span, "this array")));
                }
                let ty = Type::Array { element: Box::new(base), len: len.unwrap_or(0) };
                let inner = items::inner_declarator(node);
                let innermost =
                    inner.is_none_or(|inner| !inner.kind().ends_with("array_declarator"));
                if len.is_none() && !innermost {
                    return Err(self.type_error(
                        node,
                        "only the first length of an array may be left out",
                        "write the others",
                    ));
                }
                let mut declared = match inner {
                    Some(inner) => self.declarator(inner, ty)?,
                    None => simple(None, ty),
                };
                declared.unsized_array |=
                    matches!(&declared.ty, Type::Array { len: 0, .. }) && len.is_none();
                Ok(declared)
            }
            "parenthesized_declarator"
            | "abstract_parenthesized_declarator"
            | "attributed_declarator" => {
                match items::inner_declarator(node).or_else(|| node.named_child(0)) {
                    Some(inner) => self.declarator(inner, base),
                    None => Ok(simple(None, base)),
                }
            }
            "init_declarator" => match node.child_by_field_name("declarator") {
                Some(inner) => self.declarator(inner, base),
                None => Ok(simple(None, base)),
            },
            "function_declarator" | "abstract_function_declarator" => {
                Err(self.not_modelled(node, "function types", "call the function by its name"))
            }
            "structured_binding_declarator" => Err(self.not_modelled(
                node,
                "structured bindings",
                "declare a variable and use its fields",
            )),
            _ => Err(self.not_modelled(node, format!("this declarator ({kind})"), "simplify it")),
        }
    }

    /// A type name in a cast, `sizeof` or template argument.
    pub(crate) fn type_descriptor(&mut self, node: Node<'a>) -> Lowered<Declared<'a>> {
        let specifiers = self.specifiers(node)?;
        let Named::Type(base) = specifiers.ty.clone() else {
            return Err(self.type_error(node, "`auto` is no type here", "write the type out"));
        };
        let mut declared = match node.child_by_field_name("declarator") {
            Some(declarator) => self.declarator(declarator, base)?,
            None => Declared {
                name: None,
                ty: base,
                reference: false,
                unsized_array: false,
                read_only: false,
                pointee: Qualifiers::default(),
            },
        };
        qualify(&mut declared, &specifiers);
        Ok(declared)
    }

    fn type_descriptor_named(&mut self, node: Node<'a>) -> Lowered<Named> {
        if node.child_by_field_name("declarator").is_none()
            && let Some(ty) = node.child_by_field_name("type")
        {
            return self.type_specifier(ty);
        }
        Ok(Named::Type(self.type_descriptor(node)?.ty))
    }

    // Variables

    /// A declaration in a function.
    pub(crate) fn local_declaration(&mut self, node: Node<'a>) {
        let mut cursor = node.walk();
        let declarators: Vec<_> = node.children_by_field_name("declarator", &mut cursor).collect();
        let specifiers = match self.specifiers(node) {
            Ok(specifiers) => specifiers,
            Err(Failed) => {
                for name in declarators.into_iter().filter_map(items::declared_name) {
                    self.bind(self.text(name), Binding::Poisoned);
                }
                return;
            }
        };
        for declarator in declarators {
            let init = declarator
                .child_by_field_name("value")
                .or_else(|| node.child_by_field_name("value"));
            if self.variable(declarator, init, &specifiers).is_err()
                && let Some(name) = items::declared_name(declarator)
            {
                self.bind(self.text(name), Binding::Poisoned);
            }
        }
    }

    /// One variable of a declaration.
    fn variable(
        &mut self,
        declarator: Node<'a>,
        init: Option<Node<'a>>,
        specifiers: &Specifiers,
    ) -> Lowered<()> {
        if let Some(function) = items::function_declarator(declarator) {
            return self.function_like_variable(function, specifiers);
        }
        if specifiers.ty == Named::ThreadBlock {
            if let Some(name) = items::declared_name(declarator) {
                self.declare(name, self.text(name), Binding::ThreadBlock)?;
            }
            return Ok(());
        }
        let base = match &specifiers.ty {
            Named::Type(ty) => ty.clone(),
            _ => Type::Void,
        };
        let mut declared = self.declarator(declarator, base)?;
        qualify(&mut declared, specifiers);
        let Some(name) = declared.name else { return Ok(()) };
        if specifiers.shared {
            return self.shared_variable(name, declared, init, specifiers);
        }
        if specifiers.constant_memory || specifiers.device_memory {
            return Err(self.type_error(
                name,
                "__device__ and __constant__ variables belong outside functions",
                "move the declaration out of the kernel",
            ));
        }
        if declared.reference {
            let Some(init) = init.and_then(initial_expression) else {
                return Err(self.type_error(
                    name,
                    "a reference needs a place to refer to",
                    "give it one",
                ));
            };
            let auto = specifiers.ty == Named::Auto;
            let binding =
                self.reference(init, (!auto).then_some(&declared.ty), declared.pointee)?;
            return self.declare(name, self.text(name), binding);
        }
        if specifiers.ty == Named::Auto {
            return self.auto_variable(name, init, &declared, specifiers);
        }
        if declared.ty == Type::Void {
            return Err(self.type_error(name, "a variable cannot be `void`", "give it a type"));
        }
        if let Type::Array { .. } = declared.ty {
            return self.thread_array(name, declared, init);
        }
        let value = match init {
            Some(init) => {
                let used = self.usage(self.text(name), &declared.ty);
                Some(self.initial_struct(init, &declared.ty, &used)?)
            }
            None => None,
        };
        self.declare_variable(name, declared, value, specifiers)
    }

    /// [`Lowerer::initial_value`] for a variable of which only parts are used.
    fn initial_struct(&mut self, init: Node<'a>, ty: &Type, used: &Usage) -> Lowered<Value> {
        match initial_expression(init) {
            Some(expression) if *used != Usage::Whole && is_place(expression) => {
                self.used_value(expression, ty, used)
            }
            _ => self.initial_value(init, ty),
        }
    }

    /// The value of an expression that names a struct of which only parts are
    /// used.
    pub(crate) fn used_value(&mut self, node: Node<'a>, ty: &Type, used: &Usage) -> Lowered<Value> {
        let place = self.place(node)?;
        let value = if self.place_type(&place).as_ref() == Some(ty) {
            self.used_place(place, used, node)?
        } else {
            self.load(place, node)?
        };
        self.convert(value, ty, node)
    }

    /// The value of a struct's place of which only parts are used.
    pub(crate) fn used_place(
        &mut self,
        place: Place,
        used: &Usage,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let Place::Memory(memory) = place else { return self.load(place, node) };
        let default = simulator::CacheOp::Default;
        match used {
            Usage::Fields(fields) => self.load_memory(memory, default, Some(fields), node),
            Usage::Whole => self.load_memory(memory, default, None, node),
            Usage::Moved => {
                self.load_whole(&memory, node)?;
                self.unknown(&memory.ty, node)
            }
        }
    }

    /// A value of which nothing is known.
    fn unknown(&mut self, ty: &Type, node: Node<'a>) -> Lowered<Value> {
        let text = self.source_text(node);
        self.read_constant(&Constant { name: text.into(), ty: ty.clone() }, node)
    }

    /// `int x(n);`, which the grammar takes for a function's declaration.
    fn function_like_variable(
        &mut self,
        function: Node<'a>,
        specifiers: &Specifiers,
    ) -> Lowered<()> {
        let (Some(name), Some(parameters), Named::Type(ty)) = (
            function.child_by_field_name("declarator").filter(|name| name.kind() == "identifier"),
            function.child_by_field_name("parameters"),
            &specifiers.ty,
        ) else {
            return Ok(());
        };
        let argument = parameters
            .named_child(0)
            .filter(|_| parameters.named_child_count() == 1)
            .and_then(|parameter| parameter.child_by_field_name("type"))
            .filter(|argument| argument.kind() == "type_identifier");
        let Some(argument) = argument else { return Ok(()) };
        if !matches!(
            self.local_binding(self.text(argument)),
            Some(Binding::Place(_) | Binding::Value(_))
        ) {
            return Ok(());
        }
        let value = self.expr(argument)?;
        let value = self.convert(value, ty, argument)?;
        let declared = Declared {
            name: Some(name),
            ty: ty.clone(),
            reference: false,
            unsized_array: false,
            read_only: specifiers.constant || specifiers.constexpr,
            pointee: Qualifiers::default(),
        };
        self.declare_variable(name, declared, Some(value), specifiers)
    }

    fn auto_variable(
        &mut self,
        name: Node<'a>,
        init: Option<Node<'a>>,
        declared: &Declared<'a>,
        specifiers: &Specifiers,
    ) -> Lowered<()> {
        let Some(init) = init.and_then(initial_expression) else {
            return Err(self.type_error(
                name,
                "`auto` needs one initial value",
                "write the type, or give a value",
            ));
        };
        if self.is_thread_block(init) {
            return self.declare(name, self.text(name), Binding::ThreadBlock);
        }
        let value = self.expr(init)?;
        if value.ty == Type::Void {
            return Err(self.type_error(
                init,
                "this has no value",
                "call a function that returns one",
            ));
        }
        let mut declared = Declared { ty: value.ty.clone(), ..declared.clone() };
        if let [Leaf::Pointer(pointer)] = value.leaves.as_slice() {
            declared.pointee = declared.pointee.and(pointer.qualifiers);
        }
        self.declare_variable(name, declared, Some(value), specifiers)
    }

    /// Binds a name to a new variable with an initial value.
    pub(crate) fn declare_variable(
        &mut self,
        name: Node<'a>,
        declared: Declared<'a>,
        mut value: Option<Value>,
        specifiers: &Specifiers,
    ) -> Lowered<()> {
        let text = self.text(name);
        let constant = value.as_ref().is_some_and(is_constant);
        if specifiers.constexpr && !constant && !declared.ty.is_float_like() {
            return Err(self.type_error(
                name,
                format!("`{text}` is constexpr, but its value is not a constant"),
                "use `const`, or a value made of literals and parameters",
            ));
        }
        if let Some(value) = &mut value {
            for leaf in &mut value.leaves {
                if let Leaf::Pointer(pointer) = leaf {
                    // `volatile float* v = p;` reads through `v` as volatile.
                    pointer.qualifiers = pointer.qualifiers.and(declared.pointee);
                }
            }
            let register_target = value.leaves.iter().any(|leaf| {
                matches!(leaf, Leaf::Pointer(Pointer { target: Target::Register(..), .. }))
            });
            if (declared.read_only && constant)
                || (register_target && !self.assigned.contains(text))
            {
                return self.declare(name, text, Binding::Value(value.clone()));
            }
        }
        let qualifiers = match &value {
            Some(value) => match value.leaves.as_slice() {
                [Leaf::Pointer(pointer)] => pointer.qualifiers,
                _ => declared.pointee,
            },
            None => declared.pointee,
        };
        let mut register = self.new_register(name, text, &declared.ty, qualifiers)?;
        register.moved = self.usage(text, &declared.ty) == Usage::Moved;
        if let Some(value) = value.filter(|_| !register.moved) {
            self.store_register(&register, value, name)?;
        }
        register.read_only = declared.read_only;
        self.declare(name, text, Binding::Place(Place::Register(register)))
    }

    /// A variable in registers, with a local for each integer and address.
    pub(crate) fn new_register(
        &mut self,
        node: Node<'a>,
        name: &str,
        ty: &Type,
        pointee: Qualifiers,
    ) -> Lowered<Register> {
        self.check_leaves(node, ty)?;
        let leaves = leaf_types(ty, &self.structs);
        let single = leaves.len() == 1;
        let mut names = leaf_names(ty, &self.structs).into_iter();
        let mut slots = Vec::with_capacity(leaves.len());
        for (leaf, _) in leaves {
            let part = names.next().unwrap_or_default();
            let name = if single { name.to_owned() } else { format!("{name}{part}") };
            slots.push(match leaf {
                LeafType::Scalar(scalar) if scalar.is_float() => Slot::Float,
                LeafType::Scalar(scalar) => Slot::Int(self.local(&name, ValueType::Int(scalar))),
                LeafType::Pointer => Slot::Pointer(self.local(&name, ValueType::Pointer), pointee),
            });
        }
        Ok(Register { name: name.into(), ty: ty.clone(), slots, read_only: false, moved: false })
    }

    /// Refuses values of too many scalars.
    pub(crate) fn check_leaves(&mut self, node: Node<'a>, ty: &Type) -> Lowered<()> {
        if leaf_count(ty, &self.structs) > MAX_LEAVES {
            let name = self.structs.name_of(ty);
            return Err(self.not_modelled(
                node,
                format!("a value of type `{name}` in registers: it would live in local memory"),
                "read and write the fields that are needed one by one",
            ));
        }
        Ok(())
    }

    /// An array of each thread.
    fn thread_array(
        &mut self,
        name: Node<'a>,
        declared: Declared<'a>,
        init: Option<Node<'a>>,
    ) -> Lowered<()> {
        let mut ty = declared.ty;
        if declared.unsized_array {
            let len = init.filter(|init| init.kind() == "initializer_list").map(|list| {
                let mut cursor = list.walk();
                list.named_children(&mut cursor).count() as u64
            });
            match (len, &mut ty) {
                (Some(given), Type::Array { len, .. }) if given > 0 => *len = given,
                _ => {
                    return Err(self.type_error(
                        name,
                        "an array needs a length",
                        "write it, or give the elements",
                    ));
                }
            }
        }
        let text = self.text(name);
        let (element, len) = innermost(&ty);
        let element = element.clone();
        self.check_leaves(name, &element)?;
        if len > 65_536 {
            return Err(self.not_modelled(
                name,
                format!("an array of {len} elements in each thread: it would live in local memory"),
                "use a buffer or a shared array",
            ));
        }
        let leaves = leaf_types(&element, &self.structs);
        let names = leaf_names(&element, &self.structs);
        let mut scalars = Vec::new();
        for ((leaf, _), part) in leaves.into_iter().zip(names) {
            let ty = match leaf {
                LeafType::Scalar(scalar) if scalar.is_float() => None,
                LeafType::Scalar(scalar) => Some(ValueType::Int(scalar)),
                LeafType::Pointer => Some(ValueType::Pointer),
            };
            let name = format!("{text}{part}");
            self.program.local_arrays.push(LocalArray { name, element: ty, len });
            scalars.push((LocalArrayId(self.program.local_arrays.len() - 1), leaf));
        }
        let array = Rc::new(ThreadArray { name: text.to_owned(), scalars });
        let span = self.span(name);
        let index = fold::constant(Scalar::I64, 0, span);
        let mut elements = Elements { array, index, ty: ty.clone(), read_only: false };
        if let Some(init) = init {
            if init.kind() != "initializer_list" {
                return Err(self.not_modelled(
                    init,
                    "an array's initial value that is not a list in braces",
                    "assign the elements in a loop",
                ));
            }
            self.check_leaves(init, &ty)?;
            let value = self.aggregate(init, &ty)?;
            self.store_elements(&elements, value, init)?;
        }
        elements.read_only = declared.read_only;
        self.declare(name, text, Binding::Place(Place::Elements(elements)))
    }

    /// A `__shared__` variable.
    fn shared_variable(
        &mut self,
        name: Node<'a>,
        declared: Declared<'a>,
        init: Option<Node<'a>>,
        specifiers: &Specifiers,
    ) -> Lowered<()> {
        if let Some(init) = init {
            return Err(self.type_error(
                init,
                "shared memory has no initial value",
                "store to it, then call __syncthreads()",
            ));
        }
        if declared.reference || declared.ty == Type::Void {
            return Err(self.type_error(name, "shared memory needs a type", "give it one"));
        }
        let text = self.text(name);
        let span = self.span(name);
        let mut ty = declared.ty;
        let dynamic = declared.unsized_array;
        if dynamic && !specifiers.external {
            return Err(self.type_error(
                name,
                format!("shared array `{text}` has no length"),
                "write the length, or `extern` and [launch] dynamic_shared_bytes",
            ));
        }
        let integer = match innermost(&ty).0 {
            Type::Scalar(scalar) | Type::Vector { element: scalar, .. } if !scalar.is_float() => {
                Some(*scalar)
            }
            _ => None,
        };
        let align = self.structs.align_of(&ty).max(specifiers.align.unwrap_or(1));
        let key = (name.start_byte(), self.instance.clone());
        let known = self.shared.get(&key).copied();
        if dynamic {
            let bytes = self.env.launch.dynamic_shared_bytes;
            if bytes == 0 {
                return Err(self.fail(Diagnostic::new(
                    Kind::Limit,
                    span,
                    format!("`{text}` is dynamic shared memory, of which the launch gives none"),
                    "add `dynamic_shared_bytes = \"…\"` to [launch]",
                )));
            }
            if let Type::Array { element, len } = &mut ty {
                *len = bytes / self.structs.size_of(element).max(1);
            }
        }
        let id = known.unwrap_or_else(|| {
            let id = SharedId(self.program.shared.len());
            let (offset, bytes) = if dynamic {
                // The driver places it behind the static arrays, whose sum is
                // known at the end.
                self.dynamic_shared.push((id, align.max(16), span));
                (0, self.env.launch.dynamic_shared_bytes)
            } else {
                let offset = self.program.shared_bytes.next_multiple_of(align);
                let bytes = self.structs.size_of(&ty);
                self.program.shared_bytes = offset.saturating_add(bytes);
                (offset, bytes)
            };
            self.program.shared.push(SharedArray {
                name: text.to_owned(),
                offset,
                bytes,
                shape: shape(&ty),
                element_bytes: self.structs.size_of(innermost(&ty).0),
                integer,
            });
            id
        });
        self.shared.insert(key, id);
        if self.program.shared_bytes > MAX_BYTES {
            return Err(self.fail(too_large(span, "shared memory")));
        }
        // Dynamic memory is added at the end.
        let fixed = self.program.shared_bytes;
        if fixed > MAX_STATIC_SHARED_BYTES {
            let message = format!(
                "{fixed} bytes of `__shared__` arrays are over the limit of \
                 {MAX_STATIC_SHARED_BYTES}"
            );
            let help = "use a smaller tile, or `extern __shared__` and [launch] \
                        dynamic_shared_bytes, which may be up to 232448";
            return Err(self.fail(Diagnostic::new(Kind::Limit, span, message, help)));
        }
        let address = Expr { kind: ExprKind::SharedBase(id), ty: ValueType::Pointer, span };
        let qualifiers =
            Qualifiers { volatile: specifiers.volatile, read_only: declared.read_only };
        let memory = Memory { of: Some(Root::Shared(id)), ..Memory::at(address, ty, qualifiers) };
        self.declare(name, text, Binding::Place(Place::Memory(memory)))
    }

    /// Binds a reference to the place that an expression names.
    pub(crate) fn reference(
        &mut self,
        init: Node<'a>,
        ty: Option<&Type>,
        qualifiers: Qualifiers,
    ) -> Lowered<Binding> {
        let place = self.place(init)?;
        if let Some(ty) = ty {
            let found = self.place_type(&place);
            if let Some(found) = found
                && found != *ty
            {
                // A reference to a constant of another type refers to a copy.
                if qualifiers.read_only {
                    let value = self.load(place, init)?;
                    let value = self.convert(value, ty, init)?;
                    return Ok(Binding::Value(self.held(value, "copy")));
                }
                let (ours, theirs) = (self.structs.name_of(ty), self.structs.name_of(&found));
                return Err(self.type_error(
                    init,
                    format!("a reference to `{ours}` cannot refer to {}", article(&theirs)),
                    format!("declare it as `{theirs}&`, or use `auto&`"),
                ));
            }
        }
        self.refer(place, qualifiers).map(Binding::Place)
    }

    /// A place that stays the same whatever happens to the variables that its
    /// address was computed from.
    pub(crate) fn refer(&mut self, mut place: Place, qualifiers: Qualifiers) -> Lowered<Place> {
        for expr in super::context::place_exprs(&mut place) {
            if !is_fixed(expr) {
                let value = expr.clone();
                *expr = self.temporary("reference", value);
            }
        }
        match &mut place {
            Place::Memory(memory) => memory.qualifiers = memory.qualifiers.and(qualifiers),
            Place::Register(register) => register.read_only |= qualifiers.read_only,
            Place::Elements(elements) => elements.read_only |= qualifiers.read_only,
            Place::Rows(_) | Place::Constant(_) | Place::Value(_) => {}
        }
        Ok(place)
    }

    /// A value whose expressions keep their value whatever is assigned later.
    pub(crate) fn held(&mut self, mut value: Value, name: &str) -> Value {
        for expr in super::context::value_exprs(&mut value) {
            if !is_fixed(expr) {
                let old = expr.clone();
                *expr = self.temporary(name, old);
            }
        }
        value
    }

    /// The value of an initialiser for a variable of type `ty`.
    pub(crate) fn initial_value(&mut self, init: Node<'a>, ty: &Type) -> Lowered<Value> {
        match init.kind() {
            "initializer_list" => self.aggregate(init, ty),
            "argument_list" => {
                let mut cursor = init.walk();
                let arguments: Vec<_> = init.named_children(&mut cursor).collect();
                match arguments.as_slice() {
                    [argument] => {
                        let value = self.expr(*argument)?;
                        self.convert(value, ty, *argument)
                    }
                    _ => self.construct(init, ty, &arguments),
                }
            }
            _ => {
                let value = self.expr(init)?;
                self.convert(value, ty, init)
            }
        }
    }

    /// `T(a, b)`: the components of a vector or fields of a struct in order.
    pub(crate) fn construct(
        &mut self,
        node: Node<'a>,
        ty: &Type,
        arguments: &[Node<'a>],
    ) -> Lowered<Value> {
        if let Type::Struct(_) = ty
            && !arguments.is_empty()
        {
            return Err(self.not_modelled(
                node,
                "constructors of structs",
                "list the fields in braces",
            ));
        }
        let mut value = self.zero(node, ty)?;
        // What `dim3` leaves out is 1.
        if *ty == (Type::Vector { element: Scalar::U32, count: 3 }) && !arguments.is_empty() {
            let span = self.span(node);
            value.leaves = vec![Leaf::Int(fold::constant(Scalar::U32, 1, span)); 3];
        }
        self.fill(ty, &mut value, arguments)?;
        Ok(value)
    }

    /// A list in braces for an object of type `ty`; what it leaves out is 0.
    pub(crate) fn aggregate(&mut self, list: Node<'a>, ty: &Type) -> Lowered<Value> {
        self.nested(list, |this| {
            let mut value = this.zero(list, ty)?;
            let mut cursor = list.walk();
            let elements: Vec<_> = list.named_children(&mut cursor).collect();
            this.fill(ty, &mut value, &elements)?;
            Ok(value)
        })
    }

    /// Puts expressions into the parts of an object in order.
    fn fill(&mut self, ty: &Type, value: &mut Value, elements: &[Node<'a>]) -> Lowered<()> {
        let parts = parts(ty, &self.structs);
        let mut next = 0;
        for &element in elements {
            let (element, index) = if element.kind() == "initializer_pair" {
                self.designated(element, ty)?
            } else {
                (element, next)
            };
            let Some((part, first)) = parts.get(index) else {
                let name = self.structs.name_of(ty);
                return Err(self.type_error(
                    element,
                    format!("`{name}` has only {} parts", parts.len()),
                    "remove what is too much",
                ));
            };
            let mark = self.block.len();
            let new = match element.kind() {
                "initializer_list" => self.aggregate(element, part)?,
                _ => {
                    let new = self.expr(element)?;
                    self.convert(new, part, element)?
                }
            };
            self.keep_value(mark, value);
            for (slot, leaf) in value.leaves[*first..].iter_mut().zip(new.leaves) {
                *slot = leaf;
            }
            next = index + 1;
        }
        Ok(())
    }

    /// `.field = value`: the value, and the number of the field.
    fn designated(&mut self, pair: Node<'a>, ty: &Type) -> Lowered<(Node<'a>, usize)> {
        let designator = pair.child_by_field_name("designator");
        let value = pair.child_by_field_name("value");
        if let (Some(designator), Some(value), Type::Struct(id)) = (designator, value, ty)
            && designator.kind() == "field_designator"
        {
            let name = self.text(designator).trim_start_matches('.').trim();
            if let Some(index) =
                self.structs.get(*id).fields.iter().position(|field| field.name == name)
            {
                return Ok((value, index));
            }
        }
        Err(self.not_modelled(pair, "this designator", "list the values in order"))
    }

    /// The object of type `ty` whose scalars are all 0.
    pub(crate) fn zero(&mut self, node: Node<'a>, ty: &Type) -> Lowered<Value> {
        self.check_leaves(node, ty)?;
        let span = self.span(node);
        let leaves = leaf_types(ty, &self.structs)
            .into_iter()
            .map(|(leaf, _)| match leaf {
                LeafType::Scalar(scalar) if scalar.is_float() => Leaf::Float(Some(0.0)),
                LeafType::Scalar(scalar) => Leaf::Int(fold::constant(scalar, 0, span)),
                LeafType::Pointer => Leaf::Pointer(Pointer {
                    target: Target::Memory(fold::to_pointer(fold::constant(Scalar::U64, 0, span))),
                    qualifiers: Qualifiers::default(),
                }),
            })
            .collect();
        Ok(Value { ty: ty.clone(), leaves })
    }

    // The file's variables

    /// What a name of the file that is not a function or type stands for.
    pub(crate) fn item_binding(&mut self, node: Node<'a>, name: &str) -> Lowered<Option<Binding>> {
        if let Some(enumerator) = self.items.enumerators.get(name).copied() {
            let value =
                self.at_file_scope(|this| this.enumerator(enumerator.specifier, enumerator.index));
            return Ok(Some(self.cache(name, value.map(Binding::Value))?));
        }
        let Some(variable) = self.items.variables.get(name).copied() else { return Ok(None) };
        if !self.resolving.insert(name.to_owned()) {
            return Err(self.type_error(
                node,
                format!("the value of `{name}` depends on itself"),
                "give it a value made of others",
            ));
        }
        let outer = std::mem::replace(&mut self.breaks, Breaks::Nothing);
        let binding = self.at_file_scope(|this| this.file_variable(node, name, variable));
        self.breaks = outer;
        self.resolving.remove(name);
        Ok(Some(self.cache(name, binding)?))
    }

    fn cache(&mut self, name: &str, binding: Lowered<Binding>) -> Lowered<Binding> {
        let kept = match &binding {
            Ok(binding) => binding.clone(),
            Err(Failed) => Binding::Poisoned,
        };
        self.scopes[0].insert(name.to_owned(), kept);
        binding
    }

    fn file_variable(
        &mut self,
        node: Node<'a>,
        name: &str,
        variable: items::Variable<'a>,
    ) -> Lowered<Binding> {
        let specifiers = self.specifiers(variable.declaration)?;
        let init = variable
            .declarator
            .child_by_field_name("value")
            .or_else(|| variable.declaration.child_by_field_name("value"));
        if specifiers.constant_memory {
            if let Named::Type(base) = specifiers.ty {
                let ty = self.declarator(variable.declarator, base)?.ty;
                return Ok(Binding::Place(Place::Constant(Constant { name: name.into(), ty })));
            }
            return Err(self.type_error(node, "a __constant__ variable needs a type", "write it"));
        }
        if specifiers.device_memory {
            if let Some(index) = self.env.buffers.iter().position(|buffer| buffer.name == name) {
                return Ok(Binding::Buffer(crate::program::BufferId(index)));
            }
            let span = self.span(node);
            let place = self.span(variable.declarator);
            return Err(self.fail(
                Diagnostic::new(
                    Kind::UnknownName,
                    span,
                    format!("`{name}` is a __device__ variable, and no buffer has its name"),
                    format!("add `{name} = {{ type = \"…\", shape = [\"…\"] }}` to [buffers]"),
                )
                .also(place, "declared here"),
            ));
        }
        let constant = specifiers.constant || specifiers.constexpr;
        let Some(init) = init.filter(|_| constant) else {
            return Err(self.type_error(
                node,
                format!("`{name}` is a variable of the host"),
                "make it const or constexpr, or pass it to the kernel",
            ));
        };
        let value = match specifiers.ty {
            Named::Type(base) => {
                let ty = self.declarator(variable.declarator, base)?.ty;
                if let Type::Array { .. } = ty {
                    return Err(self.not_modelled(
                        node,
                        "arrays of constants outside functions",
                        "declare the array inside the kernel, or as __constant__",
                    ));
                }
                let (block, value) = self.in_block(|this| this.initial_value(init, &ty));
                let value = value?;
                if !block.is_empty() {
                    return Err(self.type_error(init, "this is not a constant", "use literals"));
                }
                value
            }
            _ => self.expr(init)?,
        };
        Ok(Binding::Value(value))
    }

    /// A name's value read from constant memory.
    pub(crate) fn read_constant(&mut self, constant: &Constant, node: Node<'a>) -> Lowered<Value> {
        self.check_leaves(node, &constant.ty)?;
        let span = self.span(node);
        let leaves = leaf_types(&constant.ty, &self.structs)
            .into_iter()
            .map(|(leaf, _)| match leaf {
                LeafType::Scalar(scalar) if scalar.is_float() => Ok(Leaf::Float(None)),
                LeafType::Scalar(scalar) => {
                    let reason = OpaqueReason::NoContents(constant.name.to_string());
                    Ok(Leaf::Int(fold::opaque(reason, scalar, span)))
                }
                LeafType::Pointer => Err(self.pointer_in_memory(node)),
            })
            .collect::<Lowered<_>>()?;
        Ok(Value { ty: constant.ty.clone(), leaves })
    }

    /// Saves each element of an array of each thread.
    pub(crate) fn store_elements(
        &mut self,
        elements: &Elements,
        value: Value,
        node: Node<'a>,
    ) -> Lowered<()> {
        let span = self.span(node);
        let scalars = &elements.array.scalars;
        for (number, leaf) in value.leaves.into_iter().enumerate() {
            let (array, _) = scalars[number % scalars.len()];
            let step = fold::constant(Scalar::I64, (number / scalars.len()) as i64, span);
            let index = fold::add_index(elements.index.clone(), step, span);
            let value = match leaf {
                Leaf::Float(_) => None,
                Leaf::Int(expr) => Some(expr),
                Leaf::Pointer(Pointer { target: Target::Memory(expr), .. }) => Some(expr),
                Leaf::Pointer(_) => return Err(self.register_address(node)),
            };
            self.emit(StmtKind::SetElement { array, index, value }, span);
        }
        Ok(())
    }
}

impl Type {
    /// Whether the type is a floating-point scalar or vector.
    pub(crate) fn is_float_like(&self) -> bool {
        self.scalar().is_some_and(Scalar::is_float)
    }
}

/// Applies `const` and `volatile` before a declarator to what they qualify.
pub(crate) fn qualify(declared: &mut Declared<'_>, specifiers: &Specifiers) {
    let read_only = specifiers.constant || specifiers.constexpr;
    let qualifiers = Qualifiers { volatile: specifiers.volatile, read_only };
    if declared.reference || matches!(declared.ty, Type::Pointer(_)) {
        // `constexpr T* p` makes the pointer constant, not what it points to.
        declared.pointee = Qualifiers { read_only: specifiers.constant, ..qualifiers };
        declared.read_only |= specifiers.constexpr;
    } else {
        declared.read_only |= read_only;
        declared.pointee = qualifiers;
    }
}

/// Whether all scalars of a value are constants of the source.
fn is_constant(value: &Value) -> bool {
    value.leaves.iter().all(|leaf| match leaf {
        Leaf::Int(expr) => fold::as_const(expr).is_some(),
        Leaf::Float(value) => value.is_some(),
        Leaf::Pointer(_) => false,
    })
}

/// Whether an expression names a place rather than computing a value.
pub(crate) fn is_place(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "subscript_expression"
            | "field_expression"
            | "pointer_expression"
            | "identifier"
            | "parenthesized_expression"
    )
}

/// Whether an expression reads no variable, so that it never changes.
pub(crate) fn is_fixed(expr: &Expr) -> bool {
    let mut fixed = true;
    fold::visit(expr, &mut |expr| {
        fixed &= !matches!(expr.kind, ExprKind::Local(_) | ExprKind::Element(..));
    });
    fixed
}

/// The expression of an initialiser that is one: `= x`, `(x)` or `{x}`.
fn initial_expression(init: Node<'_>) -> Option<Node<'_>> {
    match init.kind() {
        "argument_list" | "initializer_list" => {
            init.named_child(0).filter(|_| init.named_child_count() == 1)
        }
        _ => Some(init),
    }
}

/// The innermost element of an array type, and how many there are.
pub(crate) fn innermost(ty: &Type) -> (&Type, u64) {
    let (mut ty, mut count) = (ty, 1_u64);
    while let Type::Array { element, len } = ty {
        count = count.saturating_mul(*len);
        ty = element;
    }
    (ty, count)
}

/// The lengths of an array's axes, outermost first; none for what is no array.
fn shape(ty: &Type) -> Vec<u64> {
    let mut ty = ty;
    let mut shape = Vec::new();
    while let Type::Array { element, len } = ty {
        shape.push(*len);
        ty = element;
    }
    shape
}

/// The parts of an object that a list in braces fills, with the number of each
/// part's first scalar.
fn parts(ty: &Type, structs: &StructTable) -> Vec<(Type, usize)> {
    let mut first = 0;
    let mut part = |ty: &Type| {
        let start = first;
        first += leaf_count(ty, structs) as usize;
        (ty.clone(), start)
    };
    match ty {
        Type::Void => Vec::new(),
        Type::Scalar(_) | Type::Pointer(_) => vec![part(ty)],
        Type::Vector { element, count } => {
            (0..*count).map(|_| part(&Type::Scalar(*element))).collect()
        }
        Type::Struct(id) => structs.get(*id).fields.iter().map(|field| part(&field.ty)).collect(),
        Type::Array { element, len } => (0..*len).map(|_| part(element)).collect(),
    }
}

/// How the source names each scalar of an object: `.x`, `.v[2].y`.
pub(crate) fn leaf_names(ty: &Type, structs: &StructTable) -> Vec<String> {
    match ty {
        Type::Void => Vec::new(),
        Type::Scalar(_) | Type::Pointer(_) => vec![String::new()],
        Type::Vector { count, .. } => {
            ["x", "y", "z", "w"].iter().take(usize::from(*count)).map(|c| format!(".{c}")).collect()
        }
        Type::Struct(id) => structs
            .get(*id)
            .fields
            .iter()
            .flat_map(|field| {
                leaf_names(&field.ty, structs)
                    .into_iter()
                    .map(|part| format!(".{}{part}", field.name))
            })
            .collect(),
        Type::Array { element, len } => (0..*len)
            .flat_map(|index| {
                leaf_names(element, structs).into_iter().map(move |part| format!("[{index}]{part}"))
            })
            .collect(),
    }
}

fn is_cooperative_groups(text: &str) -> bool {
    text.starts_with("cg::") || text.contains("cooperative_groups::")
}

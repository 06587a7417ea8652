//! Places: names, indexing, fields, pointers; reading and writing them.

use super::context::{Binding, Failed, Lowered, Lowerer, article};
use super::decl::innermost;
use super::fold;
use super::value::{
    Constant, Elements, Leaf, LeafType, Memory, Place, Pointer, Qualifiers, Register, Rows, Slot,
    Target, Value, leaf_count, leaf_types,
};
use crate::program::{BufferId, Expr, ExprKind, OpaqueReason, Root, Scalar, StmtKind, ValueType};
use crate::types::Type;
use simulator::CacheOp;
use tree_sitter::Node;

impl<'a> Lowerer<'a> {
    /// The place that an expression names; a value that has none is
    /// [`Place::Value`].
    pub(crate) fn place(&mut self, node: Node<'a>) -> Lowered<Place> {
        self.nested(node, |this| this.place_inner(node))
    }

    fn place_inner(&mut self, node: Node<'a>) -> Lowered<Place> {
        match node.kind() {
            "identifier" | "type_identifier" | "namespace_identifier" => {
                self.named_place(node, self.text(node))
            }
            "qualified_identifier" if super::builtins::outside(self.text(node)).is_some() => {
                Err(self.outside(node))
            }
            "qualified_identifier" => match node.child_by_field_name("name") {
                Some(name) if matches!(name.kind(), "identifier" | "qualified_identifier") => {
                    self.place(name)
                }
                _ => Ok(Place::Value(self.rvalue(node)?)),
            },
            "parenthesized_expression" => match node.named_child(0) {
                Some(inner) if inner.kind() == "comma_expression" => self.comma(inner, true),
                Some(inner) => self.place(inner),
                None => Err(self.syntax_error(node)),
            },
            "comma_expression" => self.comma(node, true),
            "subscript_expression" => self.subscript(node),
            "field_expression" => self.field(node),
            "pointer_expression" if self.operator(node) == "*" => {
                let Some(argument) = node.child_by_field_name("argument") else {
                    return Err(self.syntax_error(node));
                };
                let pointer = self.expr(argument)?;
                self.dereference(pointer, node)
            }
            "call_expression" => {
                if let Some(place) = self.reference_cast(node)? {
                    return Ok(place);
                }
                Ok(Place::Value(self.rvalue(node)?))
            }
            _ => Ok(Place::Value(self.rvalue(node)?)),
        }
    }

    /// The spelling of a node's operator.
    pub(crate) fn operator(&self, node: Node<'a>) -> &'a str {
        node.child_by_field_name("operator").map_or("", |operator| self.text(operator))
    }

    /// What a name stands for, as a place.
    fn named_place(&mut self, node: Node<'a>, name: &str) -> Lowered<Place> {
        let binding = match self.local_binding(name) {
            Some(binding) => Some(binding.clone()),
            None => self.item_binding(node, name)?,
        };
        match binding {
            Some(Binding::Place(mut place)) => {
                // What is read here stands here, whatever place it refers to.
                if let Place::Memory(memory) = &mut place {
                    memory.address.span = self.span(node);
                }
                Ok(place)
            }
            Some(Binding::Value(mut value)) => {
                let span = self.span(node);
                for leaf in &mut value.leaves {
                    if let Leaf::Int(expr) = leaf {
                        expr.span = span;
                    }
                }
                Ok(Place::Value(value))
            }
            Some(Binding::Buffer(buffer)) => Ok(self.buffer_place(buffer, node)),
            Some(Binding::Type(_)) => Err(self.type_error(
                node,
                format!("`{name}` is a type, not a value"),
                "use a variable of that type",
            )),
            Some(Binding::ThreadBlock) => Err(self.not_modelled(
                node,
                "a thread block as a value",
                "call its members: `sync()`, `thread_rank()`",
            )),
            Some(Binding::Poisoned) => Err(Failed),
            None => {
                if let Some(value) = self.builtin_value(node, name) {
                    return Ok(Place::Value(value));
                }
                if self.items.functions.contains_key(name) || super::builtins::is_function(name) {
                    return Err(self.type_error(
                        node,
                        format!("`{name}` is a function, not a value"),
                        "call it",
                    ));
                }
                Err(self.unknown_variable(node, name))
            }
        }
    }

    /// An unknown name; a buffer that no kernel parameter is bound to is one,
    /// too.
    fn unknown_variable(&mut self, node: Node<'a>, name: &str) -> Failed {
        if self.env.buffers.iter().any(|buffer| buffer.name == name) {
            return self.type_error(
                node,
                format!("buffer `{name}` is not a parameter of this function"),
                "whole functions see only their parameters: add one of this name",
            );
        }
        self.unknown_name(node, name, "name")
    }

    /// A buffer by its name.
    pub(crate) fn buffer_place(&mut self, id: BufferId, node: Node<'a>) -> Place {
        let span = self.span(node);
        let address = Expr { kind: ExprKind::BufferBase(id), ty: ValueType::Pointer, span };
        let buffer = &self.env.buffers[id.0];
        if buffer.shape.len() > 1 {
            return Place::Rows(Rows { buffer: id, address, axis: 0 });
        }
        let element = Box::new(self.env.buffer_types[id.0].clone());
        let len = buffer.shape.first().copied().unwrap_or(1);
        let ty = Type::Array { element, len };
        let memory = Memory::at(address, ty, Qualifiers::default());
        Place::Memory(Memory { of: Some(Root::Buffer(id)), ..memory })
    }

    /// The type of a place; `None` for a part of a buffer without its last
    /// indices.
    pub(crate) fn place_type(&self, place: &Place) -> Option<Type> {
        match place {
            Place::Memory(memory) => Some(memory.ty.clone()),
            Place::Rows(_) => None,
            Place::Register(register) => Some(register.ty.clone()),
            Place::Elements(elements) => Some(elements.ty.clone()),
            Place::Constant(constant) => Some(constant.ty.clone()),
            Place::Value(value) => Some(value.ty.clone()),
        }
    }

    // Parts of places

    /// `array[index]`
    fn subscript(&mut self, node: Node<'a>) -> Lowered<Place> {
        let (Some(argument), Some(indices)) =
            (node.child_by_field_name("argument"), node.child_by_field_name("indices"))
        else {
            return Err(self.syntax_error(node));
        };
        let (Some(index), 1) = (indices.named_child(0), indices.named_child_count()) else {
            return Err(self.type_error(
                indices,
                "one index is needed between brackets",
                "write several as `a[y][x]`",
            ));
        };
        let mut base = self.place(argument)?;
        let mark = self.block.len();
        let value = self.expr(index)?;
        self.keep_place(mark, &mut base);
        let index = self.integer(value, index)?;
        self.element(base, index, node)
    }

    /// The element of a place at an index.
    fn element(&mut self, place: Place, index: Expr, node: Node<'a>) -> Lowered<Place> {
        let span = self.span(node);
        match place {
            Place::Memory(memory) => match memory.ty.clone() {
                Type::Array { element, len } => {
                    let several = matches!(*element, Type::Array { .. });
                    let size = self.structs.size_of(&element);
                    let index = match memory.of {
                        Some(of) if memory.nested || several => {
                            checked(index, len, memory.axis, of)
                        }
                        _ => fold::convert(index, Scalar::I64),
                    };
                    let address =
                        fold::offset(memory.address, fold::scale(index, size, span), span);
                    Ok(Place::Memory(Memory {
                        address,
                        ty: *element,
                        nested: true,
                        axis: memory.axis.saturating_add(1),
                        ..memory
                    }))
                }
                Type::Pointer(_) => Err(self.pointer_in_memory(node)),
                ty => Err(self.no_elements(&ty, node)),
            },
            Place::Rows(rows) => {
                let buffer = &self.env.buffers[rows.buffer.0];
                let element = buffer.element_bytes;
                let inner: u64 = buffer.shape[rows.axis + 1..].iter().product();
                let row = buffer.shape.last().copied().unwrap_or(1);
                let last = rows.axis + 1 == buffer.shape.len();
                let stride = match buffer.pitch {
                    Some(pitch) if !last => inner / row.max(1) * pitch,
                    _ => inner.saturating_mul(element),
                };
                let extent = buffer.shape[rows.axis];
                let of = Root::Buffer(rows.buffer);
                let index = checked(index, extent, rows.axis as u8, of);
                let address = fold::offset(rows.address, fold::scale(index, stride, span), span);
                if !last {
                    return Ok(Place::Rows(Rows { address, axis: rows.axis + 1, ..rows }));
                }
                let ty = self.env.buffer_types[rows.buffer.0].clone();
                Ok(Place::Memory(Memory {
                    of: Some(of),
                    nested: true,
                    ..Memory::at(address, ty, Qualifiers::default())
                }))
            }
            Place::Elements(elements) => match elements.ty.clone() {
                Type::Array { element, len } => {
                    if let Some(value) = fold::as_const(&index)
                        && !(0..len as i64).contains(&value)
                    {
                        let name = &elements.array.name;
                        let message =
                            format!("index {value} is outside `{name}`, which has {len} elements");
                        return Err(self.type_error(node, message, "use 0 up to the length - 1"));
                    }
                    let (_, stride) = innermost(&element);
                    let step = fold::scale(index, stride, span);
                    let index = fold::add_index(elements.index, step, span);
                    Ok(Place::Elements(Elements { index, ty: *element, ..elements }))
                }
                Type::Pointer(_) => {
                    let pointer = self.load(Place::Elements(elements), node)?;
                    self.element_behind(pointer, index, node)
                }
                ty => Err(self.no_elements(&ty, node)),
            },
            Place::Register(register) => match register.ty.clone() {
                Type::Array { element, len } => {
                    let count = leaf_count(&element, &self.structs) as usize;
                    // One float is as good as another: nothing is known of them.
                    let floats = register.slots.iter().all(|slot| *slot == Slot::Float);
                    let first = if floats && fold::as_const(&index).is_none() {
                        self.indexed.push((index, register.name.to_string()));
                        0
                    } else {
                        self.constant_part(&register.name, &index, len, node)? * count
                    };
                    let slots = register.slots[first..first + count].to_vec();
                    Ok(Place::Register(Register { ty: *element, slots, ..register }))
                }
                Type::Pointer(_) => {
                    let pointer = self.load(Place::Register(register), node)?;
                    self.element_behind(pointer, index, node)
                }
                ty => Err(self.no_elements(&ty, node)),
            },
            Place::Constant(constant) => match constant.ty.clone() {
                Type::Array { element, .. } => {
                    Ok(Place::Constant(Constant { ty: *element, ..constant }))
                }
                ty => Err(self.no_elements(&ty, node)),
            },
            Place::Value(value) => match value.ty.clone() {
                Type::Pointer(_) => self.element_behind(value, index, node),
                Type::Array { element, len } => {
                    let count = leaf_count(&element, &self.structs) as usize;
                    let first = self.constant_part("this value", &index, len, node)? * count;
                    let leaves = value.leaves[first..first + count].to_vec();
                    Ok(Place::Value(Value { ty: *element, leaves }))
                }
                ty => Err(self.no_elements(&ty, node)),
            },
        }
    }

    /// `pointer[index]`
    fn element_behind(&mut self, pointer: Value, index: Expr, node: Node<'a>) -> Lowered<Place> {
        let moved = self.advance(pointer, index, false, node)?;
        self.dereference(moved, node)
    }

    /// The number of an element of an array inside a variable.
    fn constant_part(
        &mut self,
        name: &str,
        index: &Expr,
        len: u64,
        node: Node<'a>,
    ) -> Lowered<usize> {
        match fold::as_const(index) {
            Some(value) if (0..len as i64).contains(&value) => Ok(value as usize),
            Some(value) => Err(self.type_error(
                node,
                format!("index {value} is outside `{name}`, which has {len} elements"),
                "use 0 up to the length - 1",
            )),
            None => Err(self.not_modelled(
                node,
                "a variable index into an array inside a variable: it would live in local memory",
                "use a constant index, or index the array in memory",
            )),
        }
    }

    fn no_elements(&mut self, ty: &Type, node: Node<'a>) -> Failed {
        let name = self.structs.name_of(ty);
        self.type_error(
            node,
            format!("wrong type: {} has no elements to index", article(&name)),
            "remove an index",
        )
    }

    /// `object.field`, `pointer->field`
    fn field(&mut self, node: Node<'a>) -> Lowered<Place> {
        let (Some(argument), Some(field)) =
            (node.child_by_field_name("argument"), node.child_by_field_name("field"))
        else {
            return Err(self.syntax_error(node));
        };
        let name = self.text(field);
        if argument.kind() == "identifier"
            && let Some(Binding::Buffer(id)) = self.local_binding(self.text(argument))
        {
            let id = *id;
            return self.buffer_property(id, name, field);
        }
        let object = if self.operator(node) == "->" {
            let pointer = self.expr(argument)?;
            self.dereference(pointer, argument)?
        } else {
            self.place(argument)?
        };
        self.field_of(object, name, field, node)
    }

    /// `buffer.pitch`
    fn buffer_property(&mut self, id: BufferId, name: &str, field: Node<'a>) -> Lowered<Place> {
        let span = self.span(field);
        let buffer = &self.env.buffers[id.0];
        if name != "pitch" {
            let message = format!("a buffer has no `{name}`");
            return Err(self.type_error(field, message, "its bytes a row are `.pitch`"));
        }
        let row = buffer.shape.last().copied().unwrap_or(1).saturating_mul(buffer.element_bytes);
        let pitch = buffer.pitch.unwrap_or(row);
        Ok(Place::Value(Value::int(fold::constant(Scalar::U64, pitch as i64, span))))
    }

    /// A field or component of an object.
    pub(crate) fn field_of(
        &mut self,
        object: Place,
        name: &str,
        field: Node<'a>,
        node: Node<'a>,
    ) -> Lowered<Place> {
        let span = self.span(node);
        let Some(ty) = self.place_type(&object) else {
            return Err(self.too_few_indices(&object, node));
        };
        let found = match &ty {
            Type::Vector { element, count } => {
                let index = ["x", "y", "z", "w"].iter().position(|component| *component == name);
                index
                    .filter(|&index| index < usize::from(*count))
                    .map(|index| (Type::Scalar(*element), element.bytes() * index as u64, index))
            }
            Type::Struct(id) => {
                let layout = self.structs.get(*id);
                let mut first = 0;
                layout.fields.iter().find_map(|field| {
                    let here = first;
                    first += leaf_count(&field.ty, &self.structs) as usize;
                    (field.name == name).then(|| (field.ty.clone(), field.offset, here))
                })
            }
            _ => None,
        };
        let Some((part, offset, first)) = found else {
            return Err(self.unknown_field(&ty, name, field));
        };
        let count = leaf_count(&part, &self.structs) as usize;
        Ok(match object {
            Place::Memory(memory) => {
                let offset = fold::constant(Scalar::I64, offset as i64, span);
                let address = fold::offset(memory.address, offset, span);
                Place::Memory(Memory { address, ty: part, nested: true, axis: 0, ..memory })
            }
            Place::Register(register) => {
                let slots = register.slots[first..first + count].to_vec();
                Place::Register(Register { ty: part, slots, ..register })
            }
            Place::Elements(elements) => {
                // An object in an array of each thread: its scalars are arrays
                // side by side.
                if matches!(part, Type::Array { .. }) {
                    return Err(self.not_modelled(
                        node,
                        "arrays in structs in an array of each thread",
                        "use separate arrays",
                    ));
                }
                let scalars = elements.array.scalars[first..first + count].to_vec();
                let array = super::value::ThreadArray {
                    name: format!("{}.{name}", elements.array.name),
                    scalars,
                };
                Place::Elements(Elements { array: array.into(), ty: part, ..elements })
            }
            Place::Constant(constant) => Place::Constant(Constant { ty: part, ..constant }),
            Place::Value(value) => {
                let leaves = value.leaves.into_iter().skip(first).take(count).collect();
                Place::Value(Value { ty: part, leaves })
            }
            rows @ Place::Rows(_) => rows,
        })
    }

    fn unknown_field(&mut self, ty: &Type, name: &str, field: Node<'a>) -> Failed {
        let span = self.span(field);
        let type_name = self.structs.name_of(ty);
        let fields: Vec<String> = match ty {
            Type::Vector { count, .. } => ["x", "y", "z", "w"]
                .iter()
                .take(usize::from(*count))
                .map(|&name| name.to_owned())
                .collect(),
            Type::Struct(id) => {
                self.structs.get(*id).fields.iter().map(|field| field.name.clone()).collect()
            }
            Type::Pointer(pointee)
                if matches!(**pointee, Type::Struct(_) | Type::Vector { .. }) =>
            {
                return self.type_error(
                    field,
                    format!("`{type_name}` is a pointer, which has no field `{name}`"),
                    format!("use `->{name}`, or index it first"),
                );
            }
            _ => Vec::new(),
        };
        let help = match super::suggest::nearest(name, fields.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if fields.is_empty() => "only structs and vectors have fields".to_owned(),
            None => format!("its fields are {}", fields.join(", ")),
        };
        self.fail(crate::diagnostic::Diagnostic::new(
            crate::diagnostic::Kind::UnknownName,
            span,
            format!("unknown field `{name}` of `{type_name}`"),
            help,
        ))
    }

    /// Refuses a multi-dimensional buffer with some of its indices.
    pub(crate) fn too_few_indices(&mut self, place: &Place, node: Node<'a>) -> Failed {
        let Place::Rows(rows) = place else { return Failed };
        let buffer = &self.env.buffers[rows.buffer.0];
        let (given, needed) = (rows.axis, buffer.shape.len());
        let shape: Vec<_> = buffer.shape.iter().map(u64::to_string).collect();
        let message = format!(
            "too few indices: `{}` has {needed} axes [{}], and {given} {} given",
            buffer.name,
            shape.join(", "),
            if given == 1 { "index is" } else { "indices are" },
        );
        let help = format!(
            "index all axes, outermost first: `{}{}`",
            buffer.name,
            match needed {
                2 => "[y][x]".to_owned(),
                3 => "[z][y][x]".to_owned(),
                _ => (0..needed).map(|axis| format!("[i{axis}]")).collect(),
            },
        );
        self.type_error(node, message, help)
    }

    // Pointers

    /// `*pointer`
    pub(crate) fn dereference(&mut self, pointer: Value, node: Node<'a>) -> Lowered<Place> {
        let Type::Pointer(pointee) = pointer.ty else {
            let name = self.structs.name_of(&pointer.ty);
            return Err(self.type_error(
                node,
                format!("wrong type: {} is not a pointer", article(&name)),
                "remove the `*` or `->`",
            ));
        };
        if *pointee == Type::Void {
            return Err(self.type_error(
                node,
                "wrong type: nothing can be read through a `void*`",
                "cast it to a pointer to the type behind it",
            ));
        }
        let Some(Leaf::Pointer(Pointer { target, qualifiers })) = pointer.leaves.into_iter().next()
        else {
            return Err(Failed);
        };
        match target {
            Target::Memory(address) => {
                // A pointer that is a buffer's or array's own start keeps the
                // name, for messages about indices into it.
                let of = match address.kind {
                    ExprKind::BufferBase(id) => Some(Root::Buffer(id)),
                    ExprKind::SharedBase(id) => Some(Root::Shared(id)),
                    _ => None,
                };
                Ok(Place::Memory(Memory { of, ..Memory::at(address, *pointee, qualifiers) }))
            }
            Target::Register(place, offset) => self.behind(*place, offset, *pointee, node),
        }
    }

    /// The object of type `ty` that stands `offset` scalars behind a place in
    /// registers.
    fn behind(&mut self, place: Place, offset: Expr, ty: Type, node: Node<'a>) -> Lowered<Place> {
        let span = self.span(node);
        match place {
            Place::Constant(constant) => Ok(Place::Constant(Constant { ty, ..constant })),
            Place::Elements(elements) => {
                let inner = elements.array.scalars.len();
                let wanted = leaf_types(&ty, &self.structs);
                let fits = wanted.iter().enumerate().all(|(number, (leaf, _))| {
                    same_register(elements.array.scalars[number % inner].1, *leaf)
                });
                let offset = match fold::as_const(&offset) {
                    Some(scalars) if scalars % inner as i64 == 0 => {
                        Some(fold::constant(Scalar::I64, scalars / inner as i64, span))
                    }
                    None if inner == 1 => Some(offset),
                    _ => None,
                };
                match offset {
                    Some(offset) if fits => {
                        let index = fold::add_index(elements.index, offset, span);
                        Ok(Place::Elements(Elements { index, ty, ..elements }))
                    }
                    _ => Err(self.punning(node)),
                }
            }
            Place::Register(register) => {
                let wanted = leaf_types(&ty, &self.structs);
                let first = fold::as_const(&offset).and_then(|first| usize::try_from(first).ok());
                let slots = first.and_then(|first| register.slots.get(first..first + wanted.len()));
                let Some(slots) = slots.map(<[Slot]>::to_vec) else {
                    return Err(self.punning(node));
                };
                let fits = slots
                    .iter()
                    .zip(&wanted)
                    .all(|(slot, (leaf, _))| same_register(self.slot_type(*slot), *leaf));
                if fits {
                    return Ok(Place::Register(Register { ty, slots, ..register }));
                }
                // The bits of a float as an integer: unknown.
                if let ([Slot::Float], [(LeafType::Scalar(scalar), _)]) =
                    (slots.as_slice(), wanted.as_slice())
                {
                    let expr = fold::opaque(OpaqueReason::Float, *scalar, span);
                    return Ok(Place::Value(Value::int(expr)));
                }
                Err(self.punning(node))
            }
            _ => Err(self.register_address(node)),
        }
    }

    fn punning(&mut self, node: Node<'a>) -> Failed {
        self.not_modelled(
            node,
            "a variable read as another type or at a varying offset through its address",
            "use the variable itself, or an array with a constant index",
        )
    }

    fn slot_type(&self, slot: Slot) -> LeafType {
        match slot {
            Slot::Float => LeafType::Scalar(Scalar::F32),
            Slot::Pointer(..) => LeafType::Pointer,
            Slot::Int(local) => match self.program.locals[local.0].ty {
                ValueType::Int(scalar) => LeafType::Scalar(scalar),
                ValueType::Pointer => LeafType::Pointer,
            },
        }
    }

    /// `&place`
    pub(crate) fn address_of(&mut self, place: Place, node: Node<'a>) -> Lowered<Value> {
        let span = self.span(node);
        let (ty, target, qualifiers) = match place {
            Place::Memory(memory) => (memory.ty, Target::Memory(memory.address), memory.qualifiers),
            Place::Rows(_) => return Err(self.too_few_indices(&place, node)),
            Place::Value(_) => {
                return Err(self.type_error(
                    node,
                    "this is not an lvalue: a value has no address",
                    "put it into a variable, or take the address of an element",
                ));
            }
            place => {
                let ty = self.place_type(&place).ok_or(Failed)?;
                let read_only = match &place {
                    Place::Register(register) => register.read_only,
                    Place::Elements(elements) => elements.read_only,
                    _ => true,
                };
                let zero = fold::constant(Scalar::I64, 0, span);
                let qualifiers = Qualifiers { read_only, volatile: false };
                (ty, Target::Register(Box::new(place), zero), qualifiers)
            }
        };
        let leaves = vec![Leaf::Pointer(Pointer { target, qualifiers })];
        Ok(Value { ty: Type::Pointer(Box::new(ty)), leaves })
    }

    // Reading and writing

    /// The value of a place: an array becomes a pointer to its first element.
    pub(crate) fn load(&mut self, place: Place, node: Node<'a>) -> Lowered<Value> {
        self.load_with(place, CacheOp::Default, node)
    }

    /// [`Lowerer::load`] with a cache operator.
    pub(crate) fn load_with(
        &mut self,
        place: Place,
        cache: CacheOp,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let span = self.span(node);
        match place {
            Place::Memory(memory) => match memory.ty {
                Type::Array { element, .. } => {
                    Ok(Value::pointer(memory.address, *element, memory.qualifiers))
                }
                Type::Pointer(_) => Err(self.pointer_in_memory(node)),
                _ => self.load_memory(memory, cache, None, node),
            },
            Place::Rows(rows) => {
                if rows.axis > 0 {
                    return Err(self.too_few_indices(&Place::Rows(rows), node));
                }
                // The name of the whole buffer is a pointer to its first
                // element, as a kernel's parameter would be.
                let ty = self.env.buffer_types[rows.buffer.0].clone();
                Ok(Value::pointer(rows.address, ty, Qualifiers::default()))
            }
            // A struct that was copied without a look into it.
            Place::Register(register) if register.moved => {
                let (name, ty) = (register.name, register.ty);
                self.read_constant(&Constant { name, ty }, node)
            }
            Place::Register(register) => {
                let leaves = register
                    .slots
                    .iter()
                    .map(|slot| match *slot {
                        Slot::Float => Leaf::Float(None),
                        Slot::Int(local) => Leaf::Int(self.read(local, span)),
                        Slot::Pointer(local, qualifiers) => Leaf::Pointer(Pointer {
                            target: Target::Memory(self.read(local, span)),
                            qualifiers,
                        }),
                    })
                    .collect();
                Ok(Value { ty: register.ty, leaves })
            }
            Place::Elements(elements) => {
                if let Type::Array { element, .. } = &elements.ty {
                    let element = (**element).clone();
                    let pointer = self.address_of(
                        Place::Elements(Elements { ty: element.clone(), ..elements }),
                        node,
                    )?;
                    return Ok(pointer);
                }
                let types = leaf_types(&elements.ty, &self.structs);
                let scalars = &elements.array.scalars;
                let mut leaves = Vec::with_capacity(types.len());
                for (number, (leaf, _)) in types.into_iter().enumerate() {
                    let (array, _) = scalars[number % scalars.len()];
                    let step = fold::constant(Scalar::I64, (number / scalars.len()) as i64, span);
                    let index = Box::new(fold::add_index(elements.index.clone(), step, span));
                    let kind = ExprKind::Element(array, index);
                    leaves.push(match leaf {
                        LeafType::Scalar(scalar) if scalar.is_float() => Leaf::Float(None),
                        LeafType::Scalar(scalar) => {
                            Leaf::Int(Expr { kind, ty: ValueType::Int(scalar), span })
                        }
                        LeafType::Pointer => Leaf::Pointer(Pointer {
                            target: Target::Memory(Expr { kind, ty: ValueType::Pointer, span }),
                            qualifiers: Qualifiers::default(),
                        }),
                    });
                }
                Ok(Value { ty: elements.ty, leaves })
            }
            Place::Constant(constant) => {
                if let Type::Array { element, .. } = constant.ty {
                    let place = Place::Constant(Constant { ty: *element, ..constant });
                    return self.address_of(place, node);
                }
                self.read_constant(&constant, node)
            }
            Place::Value(value) => Ok(value),
        }
    }

    /// Assigns a value, converted to the place's type already.
    pub(crate) fn store(&mut self, place: &Place, value: Value, node: Node<'a>) -> Lowered<()> {
        match place {
            Place::Memory(memory) => {
                self.check_writable(memory, node)?;
                self.store_memory(memory, Some(&value), CacheOp::Default, node)
            }
            Place::Rows(_) => Err(self.too_few_indices(place, node)),
            Place::Register(register) => {
                if register.read_only {
                    let name = register.name.clone();
                    return Err(self.read_only(&name, node));
                }
                self.store_register(register, value, node)
            }
            Place::Elements(elements) => {
                if elements.read_only {
                    let name = elements.array.name.clone();
                    return Err(self.read_only(&name, node));
                }
                if matches!(elements.ty, Type::Array { .. }) {
                    return Err(self.not_an_lvalue(node));
                }
                self.store_elements(elements, value, node)
            }
            Place::Constant(constant) => {
                let name = constant.name.clone();
                Err(self.read_only(&name, node))
            }
            Place::Value(_) => Err(self.not_an_lvalue(node)),
        }
    }

    /// Refuses to write arrays as a whole and through pointers to `const`.
    pub(crate) fn check_writable(&mut self, memory: &Memory, node: Node<'a>) -> Lowered<()> {
        if matches!(memory.ty, Type::Array { .. }) {
            return Err(self.not_an_lvalue(node));
        }
        if memory.qualifiers.read_only {
            let text = self.source_text(node);
            return Err(self.read_only(&text, node));
        }
        Ok(())
    }

    fn read_only(&mut self, name: &str, node: Node<'a>) -> Failed {
        self.type_error(
            node,
            format!("`{name}` is const and cannot be assigned"),
            "remove the `const` from its declaration, or write to another variable",
        )
    }

    fn not_an_lvalue(&mut self, node: Node<'a>) -> Failed {
        let text = self.source_text(node);
        let help = if node.kind() == "identifier" {
            "parameters and constants keep their value: assign to a variable of your own"
        } else {
            "assign to a variable, an element or a field"
        };
        self.type_error(node, format!("`{text}` is not an lvalue: it cannot be assigned"), help)
    }

    /// Assigns a variable in registers.
    pub(crate) fn store_register(
        &mut self,
        register: &Register,
        mut value: Value,
        node: Node<'a>,
    ) -> Lowered<()> {
        let span = self.span(node);
        // `v = {v.y, v.x}`: all values are computed before the first is stored.
        if register.slots.len() > 1 {
            let locals: Vec<_> = register
                .slots
                .iter()
                .filter_map(|slot| match slot {
                    Slot::Int(local) | Slot::Pointer(local, _) => Some(*local),
                    Slot::Float => None,
                })
                .collect();
            for expr in super::context::value_exprs(&mut value) {
                let mut reads = false;
                fold::visit(expr, &mut |part| {
                    reads |= matches!(part.kind, ExprKind::Local(l) if locals.contains(&l));
                });
                if reads {
                    let old = expr.clone();
                    *expr = self.temporary("saved", old);
                }
            }
        }
        for (slot, leaf) in register.slots.iter().zip(value.leaves) {
            match (slot, leaf) {
                (Slot::Float, _) => {}
                (Slot::Int(local), Leaf::Int(expr)) => {
                    self.emit(StmtKind::Set { local: *local, value: expr }, span);
                }
                (Slot::Pointer(local, qualifiers), Leaf::Pointer(pointer)) => {
                    let Target::Memory(expr) = pointer.target else {
                        return Err(self.register_address(node));
                    };
                    // What the variable's declaration says must hold for all
                    // pointers it takes.
                    if pointer.qualifiers.read_only && !qualifiers.read_only {
                        return Err(self.type_error(
                            node,
                            "wrong type: this pointer is to `const`, the variable's is not",
                            "add `const` to the variable's declaration",
                        ));
                    }
                    self.emit(StmtKind::Set { local: *local, value: expr }, span);
                }
                _ => return Err(Failed),
            }
        }
        Ok(())
    }
}

/// An index checked against the extent of its axis; a constant inside needs no
/// check.
fn checked(index: Expr, extent: u64, axis: u8, of: Root) -> Expr {
    if let Some(value) = fold::as_const(&index)
        && fold::scalar_of(&index) != Scalar::U64
        && u64::try_from(value).is_ok_and(|value| value < extent)
    {
        return fold::convert(index, Scalar::I64);
    }
    let span = index.span;
    Expr {
        kind: ExprKind::CheckedIndex { index: Box::new(index), extent, axis, of },
        ty: ValueType::Int(Scalar::I64),
        span,
    }
}

/// Whether a scalar held as `held` can be read as `wanted` without a change of
/// bits that the model does not know.
fn same_register(held: LeafType, wanted: LeafType) -> bool {
    match (held, wanted) {
        (LeafType::Scalar(held), LeafType::Scalar(wanted)) => {
            held == wanted || (held.is_float() && wanted.is_float())
        }
        (LeafType::Pointer, LeafType::Pointer) => true,
        _ => false,
    }
}

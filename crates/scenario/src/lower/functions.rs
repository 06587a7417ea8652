//! Calls of the file's own functions, inlined; templates.

use super::context::{Binding, Breaks, Failed, Lowered, Lowerer, Returns, article};
use super::decl::{Declared, Named, Specifiers, is_fixed, qualify};
use super::items::{self, Function};
use super::parse::Unit;
use super::value::{Place, Value};
use crate::diagnostic::{Diagnostic, Kind};
use crate::program::StmtKind;
use crate::types::Type;
use std::collections::{HashMap, HashSet};
use tree_sitter::Node;

/// Calls inside calls.
const MAX_CALLS: usize = 32;

/// An argument of a template.
#[derive(Clone, Debug)]
pub(crate) enum TemplateArgument {
    Type(Type),
    Value(Value),
}

/// A parameter of a function, with its argument evaluated.
enum Argument {
    Value(Value),
    Place(Place),
    /// `cg::thread_block`
    ThreadBlock,
    /// Left out: the parameter's default stands.
    Default,
}

impl<'a> Lowerer<'a> {
    /// Inlines a call of a function of the file.
    pub(crate) fn call_function(
        &mut self,
        functions: &[Function<'a>],
        name: Node<'a>,
        template: Option<Node<'a>>,
        arguments: &[Node<'a>],
        node: Node<'a>,
    ) -> Lowered<Value> {
        let callable: Vec<_> = functions
            .iter()
            .filter(|function| !function.global && function.specialises.is_none())
            .collect();
        if callable.is_empty() {
            return Err(self.type_error(
                name,
                format!("`{}` is a kernel, which a kernel cannot call", self.text(name)),
                "make what both need a __device__ function",
            ));
        }
        let function = self.overload(&callable, name, arguments, node)?;
        let parameters = parameters(function.declarator);
        let evaluated = self.arguments(&parameters, arguments)?;
        let explicit = self.template_arguments(template)?;
        let bound = self.deduce(&function, &parameters, &evaluated, explicit, node)?;
        if let Some(special) = self.specialisation(functions, &function, &bound)? {
            return self.inline_function(&special, arguments, evaluated, Vec::new(), node);
        }
        self.inline_function(&function, arguments, evaluated, bound, node)
    }

    /// Inlines a function with its arguments evaluated.
    fn inline_function(
        &mut self,
        function: &Function<'a>,
        arguments: &[Node<'a>],
        evaluated: Vec<Argument>,
        bound: Vec<TemplateArgument>,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let Some(body) = function.node.child_by_field_name("body") else { return Err(Failed) };
        let parameters = parameters(function.declarator);
        let instance = self.instance_name("", &bound);
        self.inlined(function.node, instance, node, |this| {
            this.bind_template(node, function.template, bound)?;
            this.bind_arguments(&parameters, arguments, evaluated, node)?;
            let ty = this.return_type(function)?;
            this.function_body(function.name, function.declarator, body, ty, node)
        })
    }

    /// The specialisation of a template for these arguments, if the file has
    /// one.
    pub(crate) fn specialisation(
        &mut self,
        functions: &[Function<'a>],
        template: &Function<'a>,
        bound: &[TemplateArgument],
    ) -> Lowered<Option<Function<'a>>> {
        if template.template.is_none() {
            return Ok(None);
        }
        let wanted = self.instance_name("", bound);
        for function in functions {
            let Some(list) = function.specialises else { continue };
            let arguments = self.at_file_scope(|this| this.template_arguments(Some(list)))?;
            if self.instance_name("", &arguments) == wanted {
                return Ok(Some(Function { template: None, ..function.clone() }));
            }
        }
        Ok(None)
    }

    /// A call of a member function of a struct of the file: its fields are
    /// names in it.
    pub(crate) fn call_member(
        &mut self,
        object: Place,
        name: Node<'a>,
        arguments: &[Node<'a>],
        node: Node<'a>,
    ) -> Lowered<Value> {
        let text = self.text(name);
        let ty = self.place_type(&object);
        let Some(Type::Struct(id)) = ty else {
            let ty = ty.map_or_else(|| "buffer".to_owned(), |ty| self.structs.name_of(&ty));
            return Err(self.type_error(
                name,
                format!("wrong type: a `{ty}` has no member function `{text}`"),
                "use its fields",
            ));
        };
        let members = self.struct_bodies.get(&id).cloned();
        let found = members.as_ref().and_then(|(body, _)| {
            member_functions(*body).into_iter().find(|(_, declarator)| {
                declarator
                    .child_by_field_name("declarator")
                    .is_some_and(|name| self.text(name) == text)
                    && parameters(*declarator).len() == arguments.len()
            })
        });
        let (Some((definition, declarator)), Some((_, names))) = (found, members) else {
            let ty = self.structs.name_of(&Type::Struct(id));
            return Err(self.not_modelled(
                name,
                format!("the member function `{text}` of `{ty}`"),
                "define it in the struct, with this number of arguments",
            ));
        };
        let Some(body) = definition.child_by_field_name("body") else { return Err(Failed) };
        let parameters = parameters(declarator);
        let mut object = object;
        let mark = self.block.len();
        let evaluated = self.arguments(&parameters, arguments)?;
        self.keep_place(mark, &mut object);
        let object = self.refer(object, Default::default())?;
        let instance = self.structs.name_of(&Type::Struct(id));
        let function = Function {
            name: text,
            path: Vec::new(),
            node: definition,
            declarator,
            template: None,
            specialises: None,
            global: false,
        };
        self.inlined(definition, instance, node, |this| {
            this.bind_object(object, names, name)?;
            this.bind_arguments(&parameters, arguments, evaluated, node)?;
            let ty = this.return_type(&function)?;
            this.function_body(text, declarator, body, ty, node)
        })
    }

    /// Converts a struct of the file by its conversion operator to `to`; `None`
    /// if it has none.
    pub(crate) fn conversion(
        &mut self,
        value: &Value,
        to: &Type,
        node: Node<'a>,
    ) -> Lowered<Option<Value>> {
        let Type::Struct(id) = value.ty else { return Ok(None) };
        let Some((body, names)) = self.struct_bodies.get(&id).cloned() else { return Ok(None) };
        let mut cursor = body.walk();
        let operators: Vec<_> = body
            .named_children(&mut cursor)
            .filter(|member| member.kind() == "function_definition")
            .filter_map(|member| {
                let cast = member.child_by_field_name("declarator")?;
                (cast.kind() == "operator_cast").then_some((member, cast))
            })
            .collect();
        let ty = self.structs.name_of(&value.ty);
        for (definition, cast) in operators {
            let Some(body) = definition.child_by_field_name("body") else { continue };
            let instance = ty.clone();
            let object = Place::Value(value.clone());
            let names = names.clone();
            let converted = self.inlined(definition, instance, node, |this| {
                this.scopes.last_mut().ok_or(Failed)?.extend(names.clone());
                let Named::Type(mut target) = this.specifiers(cast)?.ty else { return Ok(None) };
                let mut declarator = cast.child_by_field_name("declarator");
                while let Some(inner) = declarator {
                    if inner.kind() == "abstract_pointer_declarator" {
                        target = Type::Pointer(Box::new(target));
                    }
                    declarator = inner.child_by_field_name("declarator");
                }
                if target != *to {
                    return Ok(None);
                }
                this.bind_object(object, names, node)?;
                this.function_body("operator", cast, body, Some(target), node).map(Some)
            })?;
            if converted.is_some() {
                return Ok(converted);
            }
        }
        Ok(None)
    }

    /// Binds `this` and the fields of an object in the current scope.
    fn bind_object(
        &mut self,
        object: Place,
        names: HashMap<String, Binding>,
        node: Node<'a>,
    ) -> Lowered<()> {
        let Some(Type::Struct(id)) = self.place_type(&object) else { return Err(Failed) };
        self.scopes.last_mut().ok_or(Failed)?.extend(names);
        let fields: Vec<String> =
            self.structs.get(id).fields.iter().map(|field| field.name.clone()).collect();
        for field in fields {
            let place = self.field_of(object.clone(), &field, node, node)?;
            self.bind(&field, Binding::Place(place));
        }
        if !matches!(object, Place::Value(_)) {
            let this = self.address_of(object, node)?;
            self.bind("this", Binding::Value(this));
        }
        Ok(())
    }

    /// Runs `inner` with the state of a function that is inlined: its own
    /// names, returns and loops.
    fn inlined<T>(
        &mut self,
        definition: Node<'a>,
        instance: String,
        node: Node<'a>,
        inner: impl FnOnce(&mut Self) -> Lowered<T>,
    ) -> Lowered<T> {
        let call = (definition.start_byte(), instance.clone());
        if self.calls.contains(&call) {
            return Err(self.not_modelled(node, "recursion", "write it as a loop"));
        }
        if self.calls.len() >= MAX_CALLS {
            let span = self.span(node);
            return Err(self.fail(Diagnostic::new(
                Kind::Limit,
                span,
                format!("calls nested more than {MAX_CALLS} deep"),
                "call fewer functions from functions",
            )));
        }
        if definition.has_error() {
            return Err(self.syntax_errors(definition));
        }
        let body = definition.child_by_field_name("body");
        let assigned = match body {
            Some(body) => assigned_names(self.unit, body),
            None => HashSet::new(),
        };
        let caller = Caller {
            scopes: self.scopes.split_off(1),
            returns: std::mem::replace(&mut self.returns, Returns::Kernel),
            breaks: std::mem::replace(&mut self.breaks, Breaks::Nothing),
            body: std::mem::replace(&mut self.body, body),
            assigned: std::mem::replace(&mut self.assigned, assigned),
            instance: std::mem::replace(&mut self.instance, instance),
            call: self.call,
        };
        self.calls_so_far += 1;
        self.call = self.calls_so_far;
        self.calls.push(call);
        self.lowered.push(self.unit.range(definition));
        self.scopes.push(HashMap::new());
        let result = self.nested(node, inner);
        self.calls.pop();
        self.scopes.truncate(1);
        self.scopes.extend(caller.scopes);
        self.returns = caller.returns;
        self.breaks = caller.breaks;
        self.body = caller.body;
        self.assigned = caller.assigned;
        self.instance = caller.instance;
        self.call = caller.call;
        result
    }

    /// The function of a set that takes these arguments.
    fn overload(
        &mut self,
        functions: &[&Function<'a>],
        name: Node<'a>,
        arguments: &[Node<'a>],
        node: Node<'a>,
    ) -> Lowered<Function<'a>> {
        let count = arguments.len();
        let fitting: Vec<_> = functions
            .iter()
            .filter(|function| {
                let parameters = parameters(function.declarator);
                let needed = parameters
                    .iter()
                    .filter(|parameter| parameter.kind() == "parameter_declaration")
                    .count();
                (needed..=parameters.len()).contains(&count)
            })
            .collect();
        match fitting.as_slice() {
            [] => {
                let takes = parameters(functions[0].declarator).len();
                let place = self.span(functions[0].declarator);
                let span = self.span(node);
                Err(self.fail(
                    Diagnostic::new(
                        Kind::Type,
                        span,
                        format!("`{}` takes {takes} arguments, not {count}", self.text(name)),
                        "give it as many as it has parameters",
                    )
                    .also(place, "defined here"),
                ))
            }
            [function] => Ok((***function).clone()),
            several => {
                // The first whose parameters have the arguments' types exactly,
                // functions before templates.
                let mut types = Vec::with_capacity(count);
                for argument in arguments {
                    types.push(match self.type_of_operand(*argument)? {
                        Type::Array { element, .. } => Type::Pointer(element),
                        ty => ty,
                    });
                }
                let mut best = None;
                for function in several.iter().filter(|function| function.template.is_none()) {
                    let mut exact = true;
                    for (parameter, ty) in parameters(function.declarator).iter().zip(&types) {
                        let declared =
                            self.at_file_scope(|this| this.parameter_type(*parameter))?.0;
                        exact &= declared.ty == *ty;
                    }
                    if exact {
                        best = Some(function);
                        break;
                    }
                }
                let chosen = best
                    .or_else(|| several.iter().find(|function| function.template.is_some()))
                    .unwrap_or(&several[0]);
                Ok((***chosen).clone())
            }
        }
    }

    /// Evaluates arguments in order; those of references as places.
    fn arguments(
        &mut self,
        parameters: &[Node<'a>],
        arguments: &[Node<'a>],
    ) -> Lowered<Vec<Argument>> {
        let mut evaluated: Vec<Argument> = Vec::with_capacity(parameters.len());
        for (index, parameter) in parameters.iter().enumerate() {
            let mark = self.block.len();
            let new = match arguments.get(index) {
                None => Argument::Default,
                Some(argument) if self.names_thread_block(*argument) => Argument::ThreadBlock,
                Some(argument) if is_reference(*parameter) => {
                    Argument::Place(self.place(*argument)?)
                }
                Some(argument) => Argument::Value(self.expr(*argument)?),
            };
            for earlier in &mut evaluated {
                match earlier {
                    Argument::Value(value) => self.keep_value(mark, value),
                    Argument::Place(place) => self.keep_place(mark, place),
                    Argument::ThreadBlock | Argument::Default => {}
                }
            }
            evaluated.push(new);
        }
        Ok(evaluated)
    }

    fn bind_arguments(
        &mut self,
        parameters: &[Node<'a>],
        nodes: &[Node<'a>],
        evaluated: Vec<Argument>,
        node: Node<'a>,
    ) -> Lowered<()> {
        for (index, (parameter, argument)) in parameters.iter().zip(evaluated).enumerate() {
            let place = nodes.get(index).copied().unwrap_or(node);
            self.bind_parameter(*parameter, argument, place)?;
        }
        Ok(())
    }

    /// Lowers a function's body in the scope that is current; `ty` is what it
    /// returns, `None` for `auto`.
    fn function_body(
        &mut self,
        name: &str,
        declarator: Node<'a>,
        body: Node<'a>,
        ty: Option<Type>,
        node: Node<'a>,
    ) -> Lowered<Value> {
        let returns = return_statements(body);
        let last = body
            .named_child_count()
            .checked_sub(1)
            .and_then(|last| body.named_child(u32::try_from(last).ok()?));
        let span = self.span(node);
        let tail = match returns.as_slice() {
            [] => true,
            [only] => last.is_some_and(|last| last.id() == only.id()),
            _ => false,
        };
        if tail {
            self.returns = Returns::Tail(ty.clone(), None);
            self.block_statement(body);
            return match (std::mem::replace(&mut self.returns, Returns::Kernel), ty) {
                (Returns::Tail(_, Some(value)), _) => Ok(value),
                (_, Some(Type::Void) | None) if returns.is_empty() => Ok(Value::void()),
                (_, Some(Type::Void)) => Ok(Value::void()),
                _ if returns.is_empty() => Err(self.type_error(
                    declarator,
                    format!("`{name}` returns no value"),
                    "add a return statement",
                )),
                // The error in the return statement is recorded.
                _ => Err(Failed),
            };
        }
        let Some(ty) = ty else {
            return Err(self.not_modelled(
                declarator,
                "`auto` functions with several return statements",
                "write the type that it returns",
            ));
        };
        let place = if ty == Type::Void {
            None
        } else {
            Some(Place::Register(self.new_register(node, name, &ty, Default::default())?))
        };
        self.returns = Returns::Call(place.clone());
        let (block, ()) = self.in_block(|this| this.block_statement(body));
        self.emit(StmtKind::Call { body: block }, span);
        match place {
            Some(place) => self.load(place, node),
            None => Ok(Value::void()),
        }
    }

    /// The type that a function returns; `None` for `auto`.
    fn return_type(&mut self, function: &Function<'a>) -> Lowered<Option<Type>> {
        let specifiers = self.specifiers(function.node)?;
        let Named::Type(mut ty) = specifiers.ty else { return Ok(None) };
        let mut declarator = function.node.child_by_field_name("declarator");
        while let Some(node) = declarator.filter(|node| node.id() != function.declarator.id()) {
            match node.kind() {
                "pointer_declarator" => ty = Type::Pointer(Box::new(ty)),
                "reference_declarator" => {
                    return Err(self.not_modelled(
                        function.declarator,
                        "functions that return references",
                        "return a pointer, or write the element's name",
                    ));
                }
                _ => {}
            }
            declarator = items::inner_declarator(node);
        }
        Ok(Some(ty))
    }

    /// Type and specifiers of a parameter.
    pub(crate) fn parameter_type(
        &mut self,
        parameter: Node<'a>,
    ) -> Lowered<(Declared<'a>, Specifiers)> {
        let specifiers = self.specifiers(parameter)?;
        let base = match &specifiers.ty {
            Named::Type(ty) => ty.clone(),
            Named::ThreadBlock => Type::Void,
            Named::Auto => {
                return Err(self.not_modelled(
                    parameter,
                    "`auto` parameters",
                    "write the type, or a template",
                ));
            }
        };
        let mut declared = match parameter.child_by_field_name("declarator") {
            Some(declarator) => self.declarator(declarator, base)?,
            None => Declared {
                name: None,
                ty: base,
                reference: false,
                unsized_array: false,
                read_only: false,
                pointee: Default::default(),
            },
        };
        // An array parameter is a pointer.
        if let (Type::Array { element, .. }, false) = (&declared.ty, declared.reference) {
            declared.ty = Type::Pointer(element.clone());
        }
        qualify(&mut declared, &specifiers);
        Ok((declared, specifiers))
    }

    fn bind_parameter(
        &mut self,
        parameter: Node<'a>,
        argument: Argument,
        node: Node<'a>,
    ) -> Lowered<()> {
        let (declared, specifiers) = self.parameter_type(parameter)?;
        let Some(name) = declared.name else { return Ok(()) };
        let text = self.text(name);
        if specifiers.ty == Named::ThreadBlock || matches!(argument, Argument::ThreadBlock) {
            self.bind(text, Binding::ThreadBlock);
            return Ok(());
        }
        let value = match argument {
            Argument::Place(place) => {
                let binding = self.bind_reference(place, &declared, node)?;
                self.bind(text, binding);
                return Ok(());
            }
            Argument::Value(value) => self.convert(value, &declared.ty, node)?,
            Argument::ThreadBlock | Argument::Default => {
                let Some(default) = parameter.child_by_field_name("default_value") else {
                    return Err(Failed);
                };
                self.at_file_scope(|this| this.initial_value(default, &declared.ty))?
            }
        };
        // A parameter that keeps its value needs no variable.
        let mut fixed = value.clone();
        let stable = super::context::value_exprs(&mut fixed).iter().all(|expr| is_fixed(expr));
        let qualified = matches!(declared.ty, Type::Pointer(_));
        if stable && !self.assigned.contains(text) {
            let mut value = value;
            if qualified {
                for leaf in &mut value.leaves {
                    if let super::value::Leaf::Pointer(pointer) = leaf {
                        pointer.qualifiers = pointer.qualifiers.and(declared.pointee);
                    }
                }
            }
            self.bind(text, Binding::Value(value));
            return Ok(());
        }
        self.declare_variable(name, declared, Some(value), &Specifiers::default())
    }

    fn bind_reference(
        &mut self,
        place: Place,
        declared: &Declared<'a>,
        node: Node<'a>,
    ) -> Lowered<Binding> {
        let found = self.place_type(&place);
        if let Some(found) = &found
            && *found != declared.ty
        {
            if declared.pointee.read_only {
                let value = self.load(place, node)?;
                let value = self.convert(value, &declared.ty, node)?;
                return Ok(Binding::Value(self.held(value, "copy")));
            }
            let (ours, theirs) = (self.structs.name_of(&declared.ty), self.structs.name_of(found));
            return Err(self.type_error(
                node,
                format!("a reference to `{ours}` cannot refer to {}", article(&theirs)),
                format!("declare it as `{theirs}&`"),
            ));
        }
        self.refer(place, declared.pointee).map(Binding::Place)
    }

    // Templates

    /// The arguments in `<…>`.
    pub(crate) fn template_arguments(
        &mut self,
        list: Option<Node<'a>>,
    ) -> Lowered<Vec<TemplateArgument>> {
        let Some(list) = list else { return Ok(Vec::new()) };
        let mut cursor = list.walk();
        let nodes: Vec<_> = list.named_children(&mut cursor).collect();
        let mut arguments = Vec::with_capacity(nodes.len());
        for node in nodes {
            if node.kind() == "type_descriptor" {
                // A single name may be a type or a value.
                let name = node
                    .child_by_field_name("type")
                    .filter(|ty| ty.kind() == "type_identifier" && node.named_child_count() == 1);
                let is_value = match name {
                    Some(name) => self.type_by_name(name)?.is_none().then_some(name),
                    None => None,
                };
                match is_value {
                    Some(name) => arguments.push(self.template_value(name)?),
                    None => {
                        arguments.push(TemplateArgument::Type(self.type_descriptor(node)?.ty));
                    }
                }
            } else {
                arguments.push(self.template_value(node)?);
            }
        }
        Ok(arguments)
    }

    fn template_value(&mut self, node: Node<'a>) -> Lowered<TemplateArgument> {
        let (ty, value) = self.constant_int(node, "a template argument")?;
        let span = self.span(node);
        Ok(TemplateArgument::Value(Value::int(super::fold::constant(ty, value, span))))
    }

    /// A name for a template with its arguments.
    pub(crate) fn instance_name(&self, name: &str, arguments: &[TemplateArgument]) -> String {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|argument| match argument {
                TemplateArgument::Type(ty) => self.structs.name_of(ty),
                TemplateArgument::Value(value) => value
                    .as_int()
                    .and_then(super::fold::as_const)
                    .map_or_else(|| "?".to_owned(), |value| value.to_string()),
            })
            .collect();
        format!("{name}<{}>", arguments.join(", "))
    }

    /// The template arguments of a call: those written, then those that the
    /// arguments' types tell.
    fn deduce(
        &mut self,
        function: &Function<'a>,
        parameters: &[Node<'a>],
        evaluated: &[Argument],
        explicit: Vec<TemplateArgument>,
        node: Node<'a>,
    ) -> Lowered<Vec<TemplateArgument>> {
        let types: Vec<Option<Type>> = evaluated
            .iter()
            .map(|argument| match argument {
                Argument::Value(value) => Some(value.ty.clone()),
                Argument::Place(place) => self.place_type(place),
                Argument::ThreadBlock | Argument::Default => None,
            })
            .collect();
        self.deduce_from_types(function, parameters, &types, explicit, node)
    }

    /// As [`Lowerer::deduce`], from the types of the arguments.
    pub(crate) fn deduce_from_types(
        &mut self,
        function: &Function<'a>,
        parameters: &[Node<'a>],
        types: &[Option<Type>],
        explicit: Vec<TemplateArgument>,
        node: Node<'a>,
    ) -> Lowered<Vec<TemplateArgument>> {
        let names = template_parameters(function.template);
        if explicit.len() > names.len() {
            return Err(self.type_error(
                node,
                format!("`{}` takes {} template arguments", function.name, names.len()),
                "give it as many as it has parameters",
            ));
        }
        let mut bound = explicit;
        for parameter in names.iter().skip(bound.len()) {
            let name = parameter_name(*parameter).map(|name| self.text(name));
            let deduced = name.filter(|_| is_type_parameter(*parameter)).and_then(|name| {
                parameters.iter().zip(types).find_map(|(parameter, ty)| {
                    deduce_type(self.unit, *parameter, name, ty.as_ref()?)
                })
            });
            match deduced {
                Some(ty) => bound.push(TemplateArgument::Type(ty)),
                // The rest are defaults, or parameters of the scenario.
                None => break,
            }
        }
        Ok(bound)
    }

    /// Binds the parameters of a template to arguments in the current scope.
    pub(crate) fn bind_template(
        &mut self,
        node: Node<'a>,
        template: Option<Node<'a>>,
        arguments: Vec<TemplateArgument>,
    ) -> Lowered<()> {
        let mut arguments = arguments.into_iter();
        for parameter in template_parameters(template) {
            let Some(name) = parameter_name(parameter) else {
                return Err(self.not_modelled(
                    parameter,
                    "this template parameter",
                    "use type and integer parameters",
                ));
            };
            let name = self.text(name);
            let binding = match arguments.next() {
                Some(TemplateArgument::Type(ty)) => Binding::Type(ty),
                Some(TemplateArgument::Value(value)) => {
                    let (declared, _) = self.parameter_type(parameter)?;
                    Binding::Value(self.convert(value, &declared.ty, node)?)
                }
                None => self.template_default(parameter, name, node)?,
            };
            self.bind(name, binding);
        }
        Ok(())
    }

    /// What a template parameter without argument stands for: its default, or
    /// the scenario's parameter of that name.
    fn template_default(
        &mut self,
        parameter: Node<'a>,
        name: &str,
        node: Node<'a>,
    ) -> Lowered<Binding> {
        if !is_type_parameter(parameter)
            && let Some(Binding::Value(value)) = self.scopes[0].get(name).cloned()
        {
            let (declared, _) = self.parameter_type(parameter)?;
            return Ok(Binding::Value(self.convert(value, &declared.ty, node)?));
        }
        if let Some(default) = parameter.child_by_field_name("default_type") {
            return match self.type_specifier(default)? {
                Named::Type(ty) => Ok(Binding::Type(ty)),
                _ => Err(self.syntax_error(default)),
            };
        }
        if let Some(default) = parameter.child_by_field_name("default_value") {
            let (declared, _) = self.parameter_type(parameter)?;
            let value = self.expr(default)?;
            return Ok(Binding::Value(self.convert(value, &declared.ty, default)?));
        }
        let place = self.span(parameter);
        let span = self.span(node);
        Err(self.fail(
            Diagnostic::new(
                Kind::UnknownName,
                span,
                format!("template parameter `{name}` has no argument"),
                "write the arguments: `name<float, 32>`",
            )
            .also(place, "this parameter"),
        ))
    }

    // Syntax errors

    /// Records all syntax errors in a part of the tree.
    pub(crate) fn syntax_errors(&mut self, node: Node<'a>) -> Failed {
        let mut rest = vec![node];
        let mut found = false;
        while let Some(node) = rest.pop() {
            if node.is_missing() {
                let span = self.span(node);
                let what = match node.kind() {
                    "identifier" => "an expression".to_owned(),
                    // A rule of the grammar says nothing to the author.
                    _ if node.is_named() => "something".to_owned(),
                    token => format!("`{token}`"),
                };
                self.fail(Diagnostic::new(
                    Kind::Syntax,
                    span,
                    format!("syntax error: {what} is missing here"),
                    "the kernel must be CUDA C++ that nvcc accepts",
                ));
                found = true;
            } else if node.is_error() {
                self.syntax_error(node);
                found = true;
            } else if node.has_error() {
                let mut cursor = node.walk();
                let children: Vec<_> = node.children(&mut cursor).collect();
                rest.extend(children.into_iter().rev());
            }
        }
        if !found {
            self.syntax_error(node);
        }
        Failed
    }
}

/// What a caller keeps while a function is inlined.
struct Caller<'a> {
    scopes: Vec<HashMap<String, Binding>>,
    body: Option<Node<'a>>,
    returns: Returns,
    breaks: Breaks,
    assigned: HashSet<String>,
    instance: String,
    call: u32,
}

/// The functions in a struct's body, with their declarators.
fn member_functions(body: Node<'_>) -> Vec<(Node<'_>, Node<'_>)> {
    let mut cursor = body.walk();
    body.named_children(&mut cursor)
        .filter(|member| member.kind() == "function_definition")
        .filter_map(|member| {
            let declarator = member.child_by_field_name("declarator")?;
            Some((member, items::function_declarator(declarator)?))
        })
        .collect()
}

/// The parameters of a function.
pub(crate) fn parameters(declarator: Node<'_>) -> Vec<Node<'_>> {
    let Some(list) = declarator.child_by_field_name("parameters") else { return Vec::new() };
    let mut cursor = list.walk();
    let parameters: Vec<_> = list
        .named_children(&mut cursor)
        .filter(|child| {
            matches!(
                child.kind(),
                "parameter_declaration"
                    | "optional_parameter_declaration"
                    | "variadic_parameter_declaration"
            )
        })
        .collect();
    // `f(void)`
    if let [only] = parameters.as_slice()
        && only.child_by_field_name("declarator").is_none()
        && only.named_child_count() == 1
        && only.child_by_field_name("type").is_some_and(|ty| ty.end_byte() - ty.start_byte() == 4)
        && only.child_by_field_name("type").is_some_and(|ty| ty.kind() == "primitive_type")
    {
        return Vec::new();
    }
    parameters
}

fn is_reference(parameter: Node<'_>) -> bool {
    let mut declarator = parameter.child_by_field_name("declarator");
    while let Some(node) = declarator {
        if node.kind().ends_with("reference_declarator") {
            return true;
        }
        declarator = items::inner_declarator(node);
    }
    false
}

/// The parameters of a template.
fn template_parameters(template: Option<Node<'_>>) -> Vec<Node<'_>> {
    let Some(template) = template else { return Vec::new() };
    let mut cursor = template.walk();
    template.named_children(&mut cursor).collect()
}

fn is_type_parameter(parameter: Node<'_>) -> bool {
    matches!(parameter.kind(), "type_parameter_declaration" | "optional_type_parameter_declaration")
}

/// The name of a template's parameter.
fn parameter_name(parameter: Node<'_>) -> Option<Node<'_>> {
    match parameter.kind() {
        "type_parameter_declaration" => parameter.named_child(0),
        "optional_type_parameter_declaration" => parameter.child_by_field_name("name"),
        "parameter_declaration" | "optional_parameter_declaration" => {
            parameter.child_by_field_name("declarator").and_then(items::declared_name)
        }
        _ => None,
    }
}

/// The type that template parameter `name` has when a function's parameter
/// takes an argument of type `ty`.
fn deduce_type(unit: &Unit, parameter: Node<'_>, name: &str, ty: &Type) -> Option<Type> {
    let base = parameter.child_by_field_name("type")?;
    if unit.text(base) != name {
        return None;
    }
    let mut ty = ty;
    let mut declarator = parameter.child_by_field_name("declarator");
    while let Some(node) = declarator {
        match node.kind() {
            "pointer_declarator"
            | "abstract_pointer_declarator"
            | "array_declarator"
            | "abstract_array_declarator" => match ty {
                Type::Pointer(inner) => ty = inner,
                Type::Array { element, .. } => ty = element,
                _ => return None,
            },
            _ => {}
        }
        declarator = items::inner_declarator(node);
    }
    Some(ty.clone())
}

/// The `return` statements of a body.
fn return_statements(body: Node<'_>) -> Vec<Node<'_>> {
    let mut found = Vec::new();
    let mut rest = vec![body];
    while let Some(node) = rest.pop() {
        match node.kind() {
            "return_statement" => found.push(node),
            "lambda_expression" | "struct_specifier" | "class_specifier" => {}
            _ => {
                let mut cursor = node.walk();
                rest.extend(node.named_children(&mut cursor));
            }
        }
    }
    found
}

/// Names that a function's body may assign: by `=`, `++`, through `&`, or as an
/// argument of a function of the file, which may take a reference.
pub(crate) fn assigned_names(unit: &Unit, body: Node<'_>) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut rest = vec![body];
    while let Some(node) = rest.pop() {
        let target = match node.kind() {
            "assignment_expression" => node.child_by_field_name("left"),
            "update_expression" => node.child_by_field_name("argument"),
            "pointer_expression"
                if node
                    .child_by_field_name("operator")
                    .is_some_and(|operator| unit.text(operator) == "&") =>
            {
                node.child_by_field_name("argument")
            }
            "argument_list" => {
                let mut cursor = node.walk();
                for argument in node.named_children(&mut cursor) {
                    if argument.kind() == "identifier" {
                        names.insert(unit.text(argument).to_owned());
                    }
                }
                None
            }
            "reference_declarator" => node
                .parent()
                .filter(|parent| parent.kind() == "init_declarator")
                .and_then(|parent| parent.child_by_field_name("value")),
            _ => None,
        };
        if let Some(name) = target.and_then(root_name) {
            names.insert(unit.text(name).to_owned());
        }
        let mut cursor = node.walk();
        rest.extend(node.named_children(&mut cursor));
    }
    names
}

/// The variable that an assignment to `node` changes.
fn root_name(mut node: Node<'_>) -> Option<Node<'_>> {
    loop {
        match node.kind() {
            "identifier" => return Some(node),
            "parenthesized_expression" => node = node.named_child(0)?,
            "field_expression" => node = node.child_by_field_name("argument")?,
            _ => return None,
        }
    }
}

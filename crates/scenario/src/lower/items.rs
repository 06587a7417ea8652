//! What a file defines at namespace level: functions, types, constants.
//!
//! Names are looked up by their last part: two namespaces that define the same
//! name are told apart only where the kernel is asked for.

use super::parse::Unit;
use std::collections::BTreeMap;
use tree_sitter::Node;

/// The definitions of a file by name, in order of place.
#[derive(Debug, Default)]
pub(crate) struct Items<'a> {
    pub(crate) functions: BTreeMap<&'a str, Vec<Function<'a>>>,
    pub(crate) types: BTreeMap<&'a str, TypeItem<'a>>,
    pub(crate) variables: BTreeMap<&'a str, Variable<'a>>,
    pub(crate) enumerators: BTreeMap<&'a str, Enumerator<'a>>,
}

/// A function with its body.
#[derive(Clone, Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    /// Namespaces around it, outermost first.
    pub(crate) path: Vec<&'a str>,
    /// `function_definition`
    pub(crate) node: Node<'a>,
    /// `function_declarator`
    pub(crate) declarator: Node<'a>,
    /// `template_parameter_list`
    pub(crate) template: Option<Node<'a>>,
    /// `template_argument_list`, where it specialises a template.
    pub(crate) specialises: Option<Node<'a>>,
    /// Whether it is a kernel.
    pub(crate) global: bool,
}

/// A type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeItem<'a> {
    pub(crate) kind: TypeKind<'a>,
    pub(crate) template: Option<Node<'a>>,
}

/// How a type is defined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TypeKind<'a> {
    /// `struct_specifier` or `class_specifier`, with a body.
    Struct(Node<'a>),
    /// `union_specifier`
    Union(Node<'a>),
    /// `enum_specifier`
    Enum(Node<'a>),
    /// `typedef`: the `type_definition` and the declarator.
    Typedef(Node<'a>, Node<'a>),
    /// `using`: the `alias_declaration`.
    Alias(Node<'a>),
}

/// A variable: the `declaration` and its declarator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable<'a> {
    pub(crate) declaration: Node<'a>,
    pub(crate) declarator: Node<'a>,
}

/// A name of an `enum`: the `enum_specifier` and its position there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enumerator<'a> {
    pub(crate) specifier: Node<'a>,
    pub(crate) index: usize,
}

impl<'a> Items<'a> {
    /// Collects the definitions of a file.
    pub(crate) fn collect(unit: &'a Unit) -> Self {
        let mut items = Self::default();
        // Nodes to look at, with the namespaces around them and the template
        // parameters before them; the next one last.
        let mut rest: Vec<(Node<'a>, Vec<&'a str>, Option<Node<'a>>)> =
            vec![(unit.tree.root_node(), Vec::new(), None)];
        while let Some((node, path, template)) = rest.pop() {
            match node.kind() {
                "function_definition" => items.function(unit, node, path, template),
                "struct_specifier" | "class_specifier" | "union_specifier" | "enum_specifier" => {
                    items.specifier(unit, node, template);
                }
                "type_definition" => {
                    if let Some(ty) = node.child_by_field_name("type") {
                        items.specifier(unit, ty, None);
                    }
                    let mut cursor = node.walk();
                    for declarator in node.children_by_field_name("declarator", &mut cursor) {
                        if let Some(name) = declared_name(declarator) {
                            let kind = TypeKind::Typedef(node, declarator);
                            items
                                .types
                                .entry(unit.text(name))
                                .or_insert(TypeItem { kind, template: None });
                        }
                    }
                }
                "alias_declaration" => {
                    if let Some(name) = node.child_by_field_name("name") {
                        let item = TypeItem { kind: TypeKind::Alias(node), template };
                        items.types.entry(unit.text(name)).or_insert(item);
                    }
                }
                "declaration" => items.declaration(unit, node),
                "namespace_definition" => {
                    let mut path = path;
                    if let Some(name) = node.child_by_field_name("name") {
                        path.push(unit.text(name));
                    }
                    if let Some(body) = node.child_by_field_name("body") {
                        rest.push((body, path, None));
                    }
                }
                "template_declaration" => {
                    let parameters = node.child_by_field_name("parameters");
                    push_children(node, &path, parameters, &mut rest);
                }
                "translation_unit"
                | "declaration_list"
                | "linkage_specification"
                | "ERROR"
                | "export_declaration" => push_children(node, &path, None, &mut rest),
                _ => {}
            }
        }
        items
    }

    fn function(
        &mut self,
        unit: &'a Unit,
        node: Node<'a>,
        path: Vec<&'a str>,
        template: Option<Node<'a>>,
    ) {
        let Some(declarator) = node.child_by_field_name("declarator").and_then(function_declarator)
        else {
            return;
        };
        if node.child_by_field_name("body").is_none() {
            return;
        }
        let Some(name) = declarator.child_by_field_name("declarator") else { return };
        let (name, specialises) = match name.kind() {
            "identifier" | "operator_name" => (name, None),
            "template_function" => {
                let arguments = name.child_by_field_name("arguments");
                match name.child_by_field_name("name") {
                    Some(name) => (name, arguments),
                    None => return,
                }
            }
            // A member defined outside its class.
            _ => return,
        };
        let head = &unit.text[node.start_byte()..declarator.start_byte()];
        let global =
            head.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == "__global__");
        let name = unit.text(name);
        let function = Function { name, path, node, declarator, template, specialises, global };
        self.functions.entry(name).or_default().push(function);
    }

    fn specifier(&mut self, unit: &'a Unit, node: Node<'a>, template: Option<Node<'a>>) {
        if node.child_by_field_name("body").is_none() {
            return;
        }
        let kind = match node.kind() {
            "struct_specifier" | "class_specifier" => TypeKind::Struct(node),
            "union_specifier" => TypeKind::Union(node),
            "enum_specifier" => TypeKind::Enum(node),
            _ => return,
        };
        if let Some(name) = node.child_by_field_name("name") {
            self.types.entry(unit.text(name)).or_insert(TypeItem { kind, template });
        }
        if let TypeKind::Enum(specifier) = kind {
            for (index, name) in enumerators(specifier).into_iter().enumerate() {
                self.enumerators
                    .entry(unit.text(name.0))
                    .or_insert(Enumerator { specifier, index });
            }
        }
    }

    fn declaration(&mut self, unit: &'a Unit, node: Node<'a>) {
        if let Some(ty) = node.child_by_field_name("type") {
            self.specifier(unit, ty, None);
        }
        let mut cursor = node.walk();
        for declarator in node.children_by_field_name("declarator", &mut cursor) {
            if contains_function(declarator) {
                continue;
            }
            if let Some(name) = declared_name(declarator) {
                self.variables
                    .entry(unit.text(name))
                    .or_insert(Variable { declaration: node, declarator });
            }
        }
    }

    /// All names, for suggestions.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.functions
            .keys()
            .chain(self.types.keys())
            .chain(self.variables.keys())
            .chain(self.enumerators.keys())
            .copied()
    }

    /// The kernels, in order of place.
    pub(crate) fn kernels(&self) -> Vec<&Function<'a>> {
        let mut kernels: Vec<_> = self
            .functions
            .values()
            .flatten()
            .filter(|f| f.global && f.specialises.is_none())
            .collect();
        kernels.sort_by_key(|function| function.node.start_byte());
        kernels
    }
}

fn push_children<'a>(
    node: Node<'a>,
    path: &[&'a str],
    template: Option<Node<'a>>,
    rest: &mut Vec<(Node<'a>, Vec<&'a str>, Option<Node<'a>>)>,
) {
    let mut cursor = node.walk();
    let children: Vec<_> = node.named_children(&mut cursor).collect();
    for child in children.into_iter().rev() {
        rest.push((child, path.to_vec(), template));
    }
}

/// The names of an enum with their values, where given.
pub(crate) fn enumerators(specifier: Node<'_>) -> Vec<(Node<'_>, Option<Node<'_>>)> {
    let Some(body) = specifier.child_by_field_name("body") else { return Vec::new() };
    let mut cursor = body.walk();
    body.named_children(&mut cursor)
        .filter(|child| child.kind() == "enumerator")
        .filter_map(|child| {
            Some((child.child_by_field_name("name")?, child.child_by_field_name("value")))
        })
        .collect()
}

/// The `function_declarator` in a declarator such as `*f(int x)`.
pub(crate) fn function_declarator(mut node: Node<'_>) -> Option<Node<'_>> {
    loop {
        match node.kind() {
            "function_declarator" => return Some(node),
            "pointer_declarator"
            | "reference_declarator"
            | "parenthesized_declarator"
            | "attributed_declarator" => node = inner_declarator(node)?,
            _ => return None,
        }
    }
}

fn contains_function(node: Node<'_>) -> bool {
    let node = match node.kind() {
        "init_declarator" => node.child_by_field_name("declarator"),
        _ => Some(node),
    };
    node.and_then(function_declarator).is_some()
}

/// The declarator inside another: the field of that name, or the last child
/// that is one.
pub(crate) fn inner_declarator(node: Node<'_>) -> Option<Node<'_>> {
    node.child_by_field_name("declarator").or_else(|| {
        let mut cursor = node.walk();
        node.named_children(&mut cursor).filter(|child| is_declarator(*child)).last()
    })
}

fn is_declarator(node: Node<'_>) -> bool {
    node.kind().ends_with("declarator")
        || matches!(node.kind(), "identifier" | "field_identifier" | "type_identifier")
}

/// The identifier that a declarator declares.
pub(crate) fn declared_name(mut node: Node<'_>) -> Option<Node<'_>> {
    loop {
        if matches!(node.kind(), "identifier" | "field_identifier" | "type_identifier") {
            return Some(node);
        }
        if !node.kind().ends_with("declarator") {
            return None;
        }
        node = inner_declarator(node)?;
    }
}

//! Which fields of a struct variable a function reads.
//!
//! nvcc loads of a struct only what is used afterwards; to load as much as it
//! does, lowering looks ahead in the function's text.

use super::context::Lowerer;
use super::items;
use super::value::leaf_count;
use crate::types::Type;
use tree_sitter::Node;

/// How a function uses a struct variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Field by field: whether each scalar is read.
    Fields(Vec<bool>),
    /// It is only assigned as a whole to something else.
    Moved,
    /// As a whole: passed to a function, or not at all.
    Whole,
}

impl<'a> Lowerer<'a> {
    /// How the current function uses the struct variable `name` of type `ty`.
    pub(crate) fn usage(&self, name: &str, ty: &Type) -> Usage {
        let (Some(body), Type::Struct(_)) = (self.body, ty) else { return Usage::Whole };
        let mut read = vec![false; leaf_count(ty, &self.structs) as usize];
        let (mut moved, mut fields) = (false, false);
        let mut rest = vec![body];
        while let Some(node) = rest.pop() {
            let mut cursor = node.walk();
            rest.extend(node.named_children(&mut cursor));
            if node.kind() != "identifier" || self.text(node) != name || declares(node) {
                continue;
            }
            let (outer, first, part) = self.named_part(node, ty);
            if outer.id() == node.id() {
                match side_of_assignment(node) {
                    Some(Side::Left) => {}
                    Some(Side::Right) => moved = true,
                    None => return Usage::Whole,
                }
                continue;
            }
            fields = true;
            if side_of_assignment(outer) != Some(Side::Left) {
                let count = leaf_count(&part, &self.structs) as usize;
                read[first..first + count].fill(true);
            }
        }
        match (fields && read.contains(&true), moved) {
            (true, false) => Usage::Fields(read),
            (false, true) if !fields => Usage::Moved,
            _ => Usage::Whole,
        }
    }

    /// The largest expression around a variable that names a part of it, with
    /// the number of the part's first scalar and its type.
    fn named_part(&self, variable: Node<'a>, ty: &Type) -> (Node<'a>, usize, Type) {
        let (mut node, mut first, mut ty) = (variable, 0, ty.clone());
        loop {
            let Some(parent) = node.parent() else { return (node, first, ty) };
            let is_object = parent
                .child_by_field_name("argument")
                .is_some_and(|object| object.id() == node.id());
            match (parent.kind(), &ty) {
                ("parenthesized_expression", _) => node = parent,
                ("field_expression", Type::Struct(id)) if is_object => {
                    let name = parent.child_by_field_name("field").map(|field| self.text(field));
                    let mut here = first;
                    let mut found = None;
                    for field in &self.structs.get(*id).fields {
                        if Some(field.name.as_str()) == name {
                            found = Some((here, field.ty.clone()));
                            break;
                        }
                        here += leaf_count(&field.ty, &self.structs) as usize;
                    }
                    let Some((here, part)) = found else { return (node, first, ty) };
                    (node, first, ty) = (parent, here, part);
                }
                ("field_expression", Type::Vector { element, .. }) if is_object => {
                    let name = parent.child_by_field_name("field").map(|field| self.text(field));
                    let component = ["x", "y", "z", "w"].iter().position(|c| Some(*c) == name);
                    let Some(component) = component else { return (node, first, ty) };
                    (node, first, ty) = (parent, first + component, Type::Scalar(*element));
                }
                ("subscript_expression", Type::Array { element, len }) if is_object => {
                    // Only an index that is a number names one element.
                    let index = parent
                        .child_by_field_name("indices")
                        .and_then(|indices| indices.named_child(0))
                        .and_then(|index| self.text(index).parse::<u64>().ok());
                    let Some(index) = index.filter(|index| index < len) else {
                        return (parent, first, ty);
                    };
                    let count = leaf_count(element, &self.structs);
                    (node, first, ty) =
                        (parent, first + (index * count) as usize, (**element).clone());
                }
                _ => return (node, first, ty),
            }
        }
    }
}

/// Whether an identifier is the name that a declaration introduces.
fn declares(node: Node<'_>) -> bool {
    node.parent().is_some_and(|parent| match parent.kind() {
        "declaration" | "init_declarator" => {
            let mut cursor = parent.walk();
            parent
                .children_by_field_name("declarator", &mut cursor)
                .any(|declarator| declarator.id() == node.id())
        }
        "parameter_declaration" => {
            items::declared_name(parent).is_some_and(|name| name.id() == node.id())
        }
        _ => false,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The side of a plain assignment that a node is.
fn side_of_assignment(node: Node<'_>) -> Option<Side> {
    let parent = node.parent()?;
    let is = |field| parent.child_by_field_name(field).is_some_and(|side| side.id() == node.id());
    let plain = parent.child_by_field_name("operator").is_some_and(|op| op.kind() == "=");
    match parent.kind() {
        "assignment_expression" if plain && is("left") => Some(Side::Left),
        "assignment_expression" if plain && is("right") => Some(Side::Right),
        _ => None,
    }
}

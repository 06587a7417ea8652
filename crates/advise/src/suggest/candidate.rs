//! A layout, and the scenario file that has it.

use super::aliases::Elements;
use super::source::{COMPONENTS, Edits, Source, Use, Vectors, VectorsFrom};
use super::struct_of;
use scenario::document::{Buffer, Document, Located, Quantity, Struct, Table};
use scenario::program::Scalar;
use scenario::types::{StructId, StructTable, Type};
use scenario::{CUDA_PITCH_BYTES, Run};
use std::collections::BTreeSet;
use std::fmt;

/// Widths of blocks that are tried for AoSoA.
const BLOCKS: [u64; 5] = [8, 16, 32, 64, 128];

/// Alignments that are tried for structs, bytes.
const ALIGNMENTS: [u64; 3] = [8, 16, 32];

/// Fields up to which every order is tried: 4! = 24 of them.
const MOST_PERMUTED: usize = 4;

/// How a struct's fields lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One struct after another.
    Aos,
    /// One field after another.
    Soa,
    /// As many of each field, then the next ones.
    AoSoA(u64),
    /// Some fields in one array, others in another.
    Split(Vec<Group>),
}

/// Fields that share an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    fields: Vec<String>,
    /// The vector that they are the components of; else one field is an array of
    /// its type, and several are a smaller struct.
    vector: Option<String>,
    /// What the kernel does not touch.
    is_rest: bool,
}

impl FieldArray {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Group {
    fn rest(fields: Vec<String>) -> Self {
        Self { fields, vector: None, is_rest: true }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields.join(" ");
        match &self.vector {
            Some(vector) => write!(f, "{vector} ({fields})"),
            None if self.is_rest => f.write_str("the rest"),
            None => f.write_str(&fields),
        }
    }
}

/// How the structs of one type are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    /// The struct.
    pub(super) name: String,
    /// How its fields lie.
    pub(super) form: Form,
    /// The fields in order.
    pub(super) fields: Vec<String>,
    /// `__align__`, where it is asked for.
    pub(super) align: Option<u64>,
    /// Bytes of the vectors that it is read with, where it is.
    pub(super) vector: Option<u64>,
    /// Whether the order of the fields is the present one.
    same_order: bool,
}

/// One thing that is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Struct(Arrangement),
    /// Rows get the pitch that CUDA chooses; a parameter that tells the kernel
    /// is changed along.
    Pitch {
        buffer: String,
        parameter: Option<(String, i128)>,
    },
    /// The buffer starts where its allocation does.
    Aligned {
        buffer: String,
    },
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Struct(arrangement) => arrangement.fmt(f),
            Self::Pitch { buffer, .. } => write!(f, "`{buffer}` with a pitch"),
            Self::Aligned { buffer } => write!(f, "`{buffer}` from the start of its allocation"),
        }
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.form {
            Form::Soa => return write!(f, "`{name}` as SoA"),
            Form::AoSoA(width) => return write!(f, "`{name}` as AoSoA of {width}"),
            Form::Split(groups) => {
                let groups: Vec<String> = groups.iter().map(Group::to_string).collect();
                return write!(f, "`{name}` split: {}", groups.join(" | "));
            }
            Form::Aos => write!(f, "`{name}` as AoS")?,
        }
        if !self.same_order {
            write!(f, ", fields {}", self.fields.join(" "))?;
        }
        if let Some(align) = self.align {
            write!(f, ", __align__({align})")?;
        }
        if let Some(bytes) = self.vector {
            write!(f, ", read {bytes} B at once")?;
        }
        Ok(())
    }
}

/// What a candidate changes; nothing, for the scenario as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    choices: Vec<Choice>,
    arrays: Vec<FieldArray>,
}

/// An array that stands for fields of a buffer's structs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldArray {
    name: String,
    /// The buffer of whole structs.
    pub(super) buffer: String,
    /// Parts of an element, `.x` or nothing for the whole of it, with the fields
    /// that they are.
    pub(super) parts: Vec<(String, String)>,
}

impl Layout {
    /// Whether it is the scenario as it is.
    pub fn is_present(&self) -> bool {
        self.choices.is_empty()
    }

    /// The fields that an array stands for.
    pub(super) fn array(&self, name: &str) -> Option<&FieldArray> {
        self.arrays.iter().find(|array| array.name == name)
    }

    /// Elements in one of a buffer of this type.
    pub(super) fn block(&self, type_name: &str) -> u64 {
        self.choices
            .iter()
            .find_map(|choice| match choice {
                Choice::Struct(Arrangement { name, form: Form::AoSoA(width), .. })
                    if name == type_name =>
                {
                    Some(*width)
                }
                _ => None,
            })
            .unwrap_or(1)
    }

    /// How much of the program it changes: of equals the smaller one is better.
    pub(super) fn size(&self) -> u32 {
        self.choices
            .iter()
            .map(|choice| match choice {
                Choice::Aligned { .. } => 1,
                Choice::Pitch { .. } => 2,
                Choice::Struct(arrangement) => match &arrangement.form {
                    Form::Aos => {
                        3 + u32::from(!arrangement.same_order)
                            + 2 * u32::from(arrangement.vector.is_some())
                    }
                    Form::Split(_) => 7,
                    Form::Soa => 8,
                    // The width of a warp is the one that people know.
                    Form::AoSoA(32) => 9,
                    Form::AoSoA(_) => 10,
                },
            })
            .sum()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_present() {
            return f.write_str("as it is");
        }
        let choices: Vec<String> = self.choices.iter().map(Choice::to_string).collect();
        f.write_str(&choices.join("; "))
    }
}

/// A scenario to make candidates of.
pub(super) struct Draft<'a> {
    pub(super) run: &'a Run,
    pub(super) document: &'a Document,
    /// The kernel's text, with every element written as `buffer[index]`.
    source: Option<Source>,
}

/// A candidate that has not been run.
pub(super) struct Made {
    pub(super) toml: String,
    pub(super) layout: Layout,
}

impl<'a> Draft<'a> {
    pub(super) fn new(run: &'a Run, document: &'a Document) -> Self {
        let mut elements = Vec::new();
        for buffer in &run.buffers {
            let Some(id) = struct_of(&buffer.ty) else { continue };
            let layout = run.structs.get(id);
            let fields = layout.fields.iter().map(|field| {
                let is_array = matches!(field.ty, Type::Array { .. });
                (field.name.clone(), (!is_array).then(|| run.structs.name_of(&field.ty)))
            });
            elements.push(Elements {
                buffer: buffer.name.clone(),
                name: layout.name.clone(),
                fields: fields.collect(),
            });
        }
        let code = document.kernel.as_ref().and_then(|kernel| kernel.value.code.as_ref());
        let code = code.map_or("", |code| code.value.as_str());
        let source = Source::new(code, run.kernel.entry.as_deref());
        Self { run, document, source: source.map(|source| source.written_out(&elements)) }
    }

    /// The scenario as it is, as one file.
    pub(super) fn present(&self) -> Document {
        self.document.clone()
    }

    fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// The struct types that buffers have.
    fn structs(&self) -> Vec<StructId> {
        let mut found = Vec::new();
        for id in self.run.buffers.iter().filter_map(|buffer| struct_of(&buffer.ty)) {
            if !found.contains(&id) {
                found.push(id);
            }
        }
        found
    }

    fn buffers_of(&self, id: StructId) -> impl Iterator<Item = &scenario::Buffer> {
        self.run.buffers.iter().filter(move |buffer| struct_of(&buffer.ty) == Some(id))
    }

    /// What can be chosen, one list for each thing that can be changed by
    /// itself; what cannot goes to `refused`.
    pub(super) fn dimensions(&self, refused: &mut Vec<(String, String)>) -> Vec<Vec<Choice>> {
        let mut dimensions = Vec::new();
        for id in self.structs() {
            dimensions.push(self.arrangements(id, refused));
        }
        for buffer in &self.run.buffers {
            if buffer.shape.len() > 1 {
                match self.pitch(buffer) {
                    Ok(choices) => dimensions.push(choices),
                    Err(reason) => {
                        refused.push((format!("`{}` with a pitch", buffer.name), reason));
                    }
                }
            }
            if buffer.offset_bytes > 0 {
                dimensions.push(vec![Choice::Aligned { buffer: buffer.name.clone() }]);
            }
        }
        dimensions
    }

    fn pitch(&self, buffer: &scenario::Buffer) -> Result<Vec<Choice>, String> {
        let row = buffer.shape.last().copied().unwrap_or(1).saturating_mul(buffer.element_bytes);
        let now = buffer.pitch.unwrap_or(row);
        if now.is_multiple_of(CUDA_PITCH_BYTES) {
            return Err(format!("its rows are multiples of {CUDA_PITCH_BYTES} B already"));
        }
        let then = row.next_multiple_of(CUDA_PITCH_BYTES);
        let name = &buffer.name;
        let mut choices = vec![Choice::Pitch { buffer: name.clone(), parameter: None }];
        // A kernel that is told the pitch is told the new one.
        for (parameter, value) in &self.run.params {
            if value.integer() == Some(i128::from(now)) {
                choices.push(Choice::Pitch {
                    buffer: name.clone(),
                    parameter: Some((parameter.clone(), i128::from(then))),
                });
            }
        }
        Ok(choices)
    }

    fn arrangements(&self, id: StructId, refused: &mut Vec<(String, String)>) -> Vec<Choice> {
        let layout = self.run.structs.get(id);
        let names: Vec<String> = layout.fields.iter().map(|field| field.name.clone()).collect();
        let aos = |fields: Vec<String>, align, vector| {
            let same_order = fields == names;
            Arrangement {
                name: layout.name.clone(),
                form: Form::Aos,
                fields,
                align,
                vector,
                same_order,
            }
        };
        let explicit = self.explicit_align(id);
        let mut choices = Vec::new();
        let mut seen = BTreeSet::new();
        seen.insert(self.signature(id, &names, explicit));
        let orders = self.orders(id);
        for order in &orders {
            let natural = std::iter::once(explicit).chain(ALIGNMENTS.map(Some));
            for align in natural.filter(|align| *align >= explicit) {
                if seen.insert(self.signature(id, order, align)) {
                    choices.push(Choice::Struct(aos(order.clone(), align, None)));
                }
            }
        }
        // Reasons are given once, not for every order.
        let mut vector_reason = None;
        for order in &orders {
            for (align, vector) in [(Some(16), 16), (explicit, 16), (Some(8), 8), (explicit, 8)] {
                if align < explicit {
                    continue;
                }
                let choice = Choice::Struct(aos(order.clone(), align, Some(vector)));
                match self.make(std::slice::from_ref(&choice)) {
                    Ok(_) if !choices.contains(&choice) => choices.push(choice),
                    Ok(_) => {}
                    Err(reason) => {
                        vector_reason.get_or_insert(reason);
                    }
                }
            }
        }
        if let Some(reason) = vector_reason
            && !choices
                .iter()
                .any(|choice| matches!(choice, Choice::Struct(Arrangement { vector: Some(_), .. })))
        {
            refused.push((format!("`{}` read as vectors", layout.name), reason));
        }
        let fields = names.clone();
        let forms = std::iter::once(Form::Soa)
            .chain(BLOCKS.map(Form::AoSoA))
            .chain(self.splits(id).into_iter().map(Form::Split));
        let mut reasons = BTreeSet::new();
        for form in forms {
            let choice = Choice::Struct(Arrangement {
                name: layout.name.clone(),
                form,
                fields: fields.clone(),
                align: None,
                vector: None,
                same_order: true,
            });
            match self.make(std::slice::from_ref(&choice)) {
                Ok(_) => choices.push(choice),
                Err(reason) => {
                    if reasons.insert(reason.clone()) {
                        refused.push((choice.to_string(), reason));
                    }
                }
            }
        }
        choices
    }

    /// Orders of the fields to try: all of few; else by falling alignment, and
    /// those that the kernel uses first.
    fn orders(&self, id: StructId) -> Vec<Vec<String>> {
        let layout = self.run.structs.get(id);
        let names: Vec<String> = layout.fields.iter().map(|field| field.name.clone()).collect();
        if names.len() <= MOST_PERMUTED {
            return permutations(&names);
        }
        let align = |name: &String| {
            let field = layout.field(name);
            std::cmp::Reverse(field.map_or(1, |field| self.run.structs.align_of(&field.ty)))
        };
        let used = self.used_fields(id);
        let mut by_align = names.clone();
        by_align.sort_by_key(align);
        let mut used_first = names.clone();
        used_first.sort_by_key(|name| (!used.contains(name), align(name)));
        let mut used_first_in_order = names.clone();
        used_first_in_order.sort_by_key(|name| !used.contains(name));
        vec![names, by_align, used_first, used_first_in_order]
    }

    /// Ways to share the fields out to several arrays: what the kernel touches in a
    /// struct of its own, apart from the rest; and what it only reads in vectors.
    fn splits(&self, id: StructId) -> Vec<Vec<Group>> {
        let uses = self.uses(id);
        let layout = self.run.structs.get(id);
        let names = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
            let names = layout.fields.iter().map(|field| field.name.clone());
            names.filter(|name| wanted(name)).collect()
        };
        let is_used = |name: &str| uses.iter().any(|found| found.field == name);
        let is_read = |name: &str| {
            is_used(name) && uses.iter().all(|found| found.field != name || found.reads)
        };
        let (used, rest) = (names(&is_used), names(&|name| !is_used(name)));
        let mut splits: Vec<Vec<Group>> = Vec::new();
        if used.len() > 1 && !rest.is_empty() {
            let used = Group { fields: used, vector: None, is_rest: false };
            splits.push(vec![used, Group::rest(rest.clone())]);
        }
        for most in [4, 2] {
            let mut groups = self.vectors(id, &names(&is_read), most);
            if groups.iter().all(|group| group.vector.is_none()) {
                continue;
            }
            for field in names(&|name| is_used(name) && !is_read(name)) {
                groups.push(Group { fields: vec![field], vector: None, is_rest: false });
            }
            if !rest.is_empty() {
                groups.push(Group::rest(rest.clone()));
            }
            if !splits.contains(&groups) {
                splits.push(groups);
            }
        }
        splits
    }

    /// Fields in vectors of one type and at most `most` of them; what is left over
    /// stands alone.
    fn vectors(&self, id: StructId, fields: &[String], most: usize) -> Vec<Group> {
        let (layout, structs) = (self.run.structs.get(id), &self.run.structs);
        let mut kinds: Vec<(Option<Scalar>, Vec<String>)> = Vec::new();
        for name in fields {
            let scalar = match layout.field(name).map(|field| &field.ty) {
                Some(Type::Scalar(scalar)) if scalar.bytes() >= 4 => Some(*scalar),
                _ => None,
            };
            match kinds.iter_mut().find(|(kind, _)| scalar.is_some() && *kind == scalar) {
                Some((_, names)) => names.push(name.clone()),
                None => kinds.push((scalar, vec![name.clone()])),
            }
        }
        let mut groups = Vec::new();
        for (scalar, names) in kinds {
            let most = scalar.map_or(1, |scalar| most.min(16 / scalar.bytes() as usize));
            let mut left = names.as_slice();
            while !left.is_empty() {
                let count = [4, 2, 1].into_iter().find(|&n| n <= most && n <= left.len());
                let (these, others) = left.split_at(count.unwrap_or(1));
                left = others;
                let vector = scalar.filter(|_| these.len() > 1).map(|element| {
                    structs.name_of(&Type::Vector { element, count: these.len() as u8 })
                });
                groups.push(Group { fields: these.to_vec(), vector, is_rest: false });
            }
        }
        groups
    }

    fn uses(&self, id: StructId) -> Vec<Use> {
        let Some(source) = self.source() else { return Vec::new() };
        self.buffers_of(id).filter_map(|buffer| source.uses(&buffer.name).ok()).flatten().collect()
    }

    fn used_fields(&self, id: StructId) -> BTreeSet<String> {
        self.uses(id).into_iter().map(|found| found.field).collect()
    }

    fn explicit_align(&self, id: StructId) -> Option<u64> {
        let (layout, structs) = (self.run.structs.get(id), &self.run.structs);
        let natural = layout.fields.iter().map(|field| structs.align_of(&field.ty)).max();
        (natural < Some(layout.align)).then_some(layout.align)
    }

    /// Where the fields lie, and the size.
    fn offsets(
        &self,
        id: StructId,
        order: &[String],
        align: Option<u64>,
    ) -> (Vec<(String, u64, Type)>, u64) {
        let (layout, structs) = (self.run.structs.get(id), &self.run.structs);
        let (mut at, mut most) = (0_u64, align.unwrap_or(1).max(1));
        let mut fields = Vec::new();
        for name in order {
            let Some(field) = layout.field(name) else { continue };
            let align = structs.align_of(&field.ty).max(1);
            at = at.next_multiple_of(align);
            most = most.max(align);
            fields.push((name.clone(), at, field.ty.clone()));
            at += structs.size_of(&field.ty);
        }
        (fields, at.next_multiple_of(most))
    }

    /// What tells two arrangements apart: the size, and where the fields lie
    /// that the kernel uses.
    fn signature(
        &self,
        id: StructId,
        order: &[String],
        align: Option<u64>,
    ) -> (u64, Vec<(String, u64)>) {
        let used = self.used_fields(id);
        let (fields, bytes) = self.offsets(id, order, align);
        let mut places: Vec<(String, u64)> = fields
            .into_iter()
            .filter(|(name, ..)| used.is_empty() || used.contains(name))
            .map(|(name, offset, _)| (name, offset))
            .collect();
        places.sort();
        (bytes, places)
    }

    /// The scenario file with all the choices made.
    pub(super) fn make(&self, choices: &[Choice]) -> Result<Made, String> {
        let mut document = self.document.clone();
        let source = self.source().ok_or("the kernel's text cannot be parsed")?;
        let mut edits = Edits::default();
        let mut layout = Layout { choices: choices.to_vec(), arrays: Vec::new() };
        let mut rewritten = false;
        for choice in choices {
            match choice {
                Choice::Aligned { buffer } => {
                    buffer_mut(&mut document, buffer)?.offset_bytes = None;
                }
                Choice::Pitch { buffer, parameter } => {
                    let pitch = nowhere(Quantity::Expr("cuda".to_owned()));
                    buffer_mut(&mut document, buffer)?.pitch = Some(pitch);
                    if let Some((name, value)) = parameter {
                        set_parameter(&mut document, name, *value);
                    }
                }
                Choice::Struct(arrangement) => {
                    self.arrange(arrangement, &mut document, source, &mut edits, &mut layout)?;
                    rewritten = true;
                }
            }
        }
        if rewritten {
            source.only_kernel(&mut edits);
            let code = source.edited(edits);
            if let Some(kernel) = &mut document.kernel {
                kernel.value.code = Some(nowhere(code));
            }
        }
        let what = Layout { arrays: Vec::new(), ..layout.clone() };
        let head = format!(
            "# Written by `coalescope suggest {}`: {}.\n",
            self.run.scenario,
            what.to_string().replace('`', "")
        );
        prune(&mut document);
        document.summary = None;
        document.claims = Vec::new();
        Ok(Made { toml: head + &document.to_toml(), layout })
    }

    fn arrange(
        &self,
        arrangement: &Arrangement,
        document: &mut Document,
        source: &Source,
        edits: &mut Edits,
        layout: &mut Layout,
    ) -> Result<(), String> {
        let id = self
            .run
            .structs
            .by_name(&arrangement.name)
            .ok_or_else(|| format!("there is no struct `{}`", arrangement.name))?;
        let structs = &self.run.structs;
        let (fields, bytes) = self.offsets(id, &arrangement.fields, arrangement.align);
        let buffers: Vec<&scenario::Buffer> = self.buffers_of(id).collect();
        if arrangement.form != Form::Aos {
            let is_split = matches!(arrangement.form, Form::Split(_));
            if let Some((name, ..)) =
                fields.iter().find(|(.., ty)| !is_split && matches!(ty, Type::Array { .. }))
            {
                return Err(format!("the field `{name}` is an array already"));
            }
            if let Some(buffer) = buffers.iter().find(|buffer| buffer.shape.len() > 1) {
                return Err(format!("`{}` has several axes", buffer.name));
            }
        }
        match &arrangement.form {
            Form::Aos => {
                let text = self.definition(arrangement, &fields, 1);
                self.define(arrangement, &fields, 1, &text, document, source, edits)?;
                if let Some(vector) = arrangement.vector {
                    for buffer in buffers {
                        let uses = source.uses(&buffer.name)?;
                        if uses.is_empty() {
                            continue;
                        }
                        let vectors = VectorPlan::new(&fields, bytes, vector, structs, &uses)?;
                        source.vectors(&buffer.name, &uses, &vectors.view(), edits)?;
                    }
                }
            }
            Form::Soa => {
                let alone = |(name, ..): &(String, u64, Type)| Group {
                    fields: vec![name.clone()],
                    vector: None,
                    is_rest: false,
                };
                let groups: Vec<Group> = fields.iter().map(alone).collect();
                self.split(id, &groups, document, source, edits, layout)?;
            }
            Form::Split(groups) => self.split(id, groups, document, source, edits, layout)?,
            &Form::AoSoA(width) => {
                let text = self.definition(arrangement, &fields, width);
                self.define(arrangement, &fields, width, &text, document, source, edits)?;
                for buffer in buffers {
                    let uses = source.uses(&buffer.name)?;
                    source.block(&uses, width, edits)?;
                    let spec = buffer_mut(document, &buffer.name)?;
                    if let Some(shape) = &mut spec.shape {
                        for extent in &mut shape.value.0 {
                            extent.value = divided(&extent.value, width);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Each group of fields in an array of its own.
    fn split(
        &self,
        id: StructId,
        groups: &[Group],
        document: &mut Document,
        source: &Source,
        edits: &mut Edits,
        layout: &mut Layout,
    ) -> Result<(), String> {
        let (of, structs) = (self.run.structs.get(id), &self.run.structs);
        let mut types: Vec<String> = Vec::new();
        for group in groups {
            let types_of: Vec<(&String, &Type)> =
                group.fields.iter().filter_map(|name| Some((name, &of.field(name)?.ty))).collect();
            let ty = match (&group.vector, types_of.as_slice()) {
                (Some(vector), _) => vector.clone(),
                (None, [(_, ty)]) if !matches!(ty, Type::Array { .. }) => structs.name_of(ty),
                (None, several) => {
                    let suffix = if group.is_rest { "rest" } else { "used" };
                    let name = self.free_name(source, &format!("{}_{suffix}", of.name));
                    let fields = several.iter().map(|(name, ty)| declare(ty, name, 1, structs));
                    let fields = fields.map(nowhere).collect();
                    let spec = Struct { fields: Some(nowhere(fields)), align: None };
                    document.structs.0.push((nowhere(name.clone()), nowhere(spec)));
                    name
                }
            };
            types.push(ty);
        }
        for buffer in self.buffers_of(id) {
            let uses = source.uses(&buffer.name)?;
            let mut arrays = Vec::new();
            for (group, ty) in groups.iter().zip(&types) {
                let is_struct = structs.by_name(ty).is_none()
                    && document.structs.0.iter().any(|(name, _)| name.value == *ty);
                let end = match group.fields.as_slice() {
                    _ if is_struct && group.is_rest => "rest".to_owned(),
                    _ if is_struct => "used".to_owned(),
                    fields => fields.join("_"),
                };
                let parts = group.fields.iter().enumerate().map(|(at, field)| {
                    let part = match (&group.vector, is_struct) {
                        (Some(_), _) => format!(".{}", COMPONENTS.get(at).unwrap_or(&"")),
                        (None, true) => format!(".{field}"),
                        (None, false) => String::new(),
                    };
                    (part, field.clone())
                });
                let array = FieldArray {
                    name: self.free_name(source, &format!("{}_{end}", buffer.name)),
                    buffer: buffer.name.clone(),
                    parts: parts.collect(),
                };
                if let Some(vector) = &group.vector {
                    let fields: Vec<(String, u64, u64)> =
                        (0..).zip(&group.fields).map(|(at, name)| (name.clone(), 0, at)).collect();
                    let variable = self.free_name(source, &end);
                    let whole = Vectors {
                        ty: vector,
                        from: VectorsFrom::Array { name: &array.name, variable: &variable },
                        chunks: &[0],
                        fields: &fields,
                    };
                    let own: Vec<Use> =
                        uses.iter().filter(|u| group.fields.contains(&u.field)).cloned().collect();
                    // Where they can't be read at once they are read one by one.
                    let mut read = edits.clone();
                    if source.vectors(&buffer.name, &own, &whole, &mut read).is_ok() {
                        *edits = read;
                    }
                }
                arrays.push((array, ty.clone()));
            }
            source.separate(&buffer.name, &uses, &arrays, edits)?;
            separate_buffer(document, &buffer.name, &arrays)?;
            layout.arrays.extend(arrays.into_iter().map(|(array, _)| array));
        }
        Ok(())
    }

    fn free_name(&self, source: &Source, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let taken = |name: &str| {
            source.mentions(name)
                || self.run.params.iter().any(|(param, _)| param == name)
                || self.run.buffers.iter().any(|buffer| buffer.name == name)
                || self.run.structs.by_name(name).is_some()
        };
        while taken(&name) {
            name.push('_');
        }
        name
    }

    /// The struct in C.
    fn definition(
        &self,
        arrangement: &Arrangement,
        fields: &[(String, u64, Type)],
        width: u64,
    ) -> String {
        let align =
            arrangement.align.map_or_else(String::new, |align| format!("__align__({align}) "));
        let mut text = format!("struct {align}{} {{\n", arrangement.name);
        for (name, _, ty) in fields {
            text.push_str(&format!("    {};\n", declare(ty, name, width, &self.run.structs)));
        }
        text.push('}');
        text
    }

    /// Defines the struct anew wherever it is defined: in the file, in the kernel's
    /// text, or in both, which have to agree.
    #[allow(clippy::too_many_arguments)] // the parts of one candidate
    fn define(
        &self,
        arrangement: &Arrangement,
        fields: &[(String, u64, Type)],
        width: u64,
        text: &str,
        document: &mut Document,
        source: &Source,
        edits: &mut Edits,
    ) -> Result<(), String> {
        let in_code = source.define(&arrangement.name, text, edits)?;
        let spec = document.structs.0.iter_mut().find(|(name, _)| name.value == arrangement.name);
        if let Some((_, spec)) = spec {
            spec.value = Struct {
                fields: Some(nowhere(
                    fields
                        .iter()
                        .map(|(name, _, ty)| nowhere(declare(ty, name, width, &self.run.structs)))
                        .collect(),
                )),
                align: arrangement.align.map(|align| nowhere(Quantity::Int(i128::from(align)))),
            };
            return Ok(());
        }
        if in_code {
            Ok(())
        } else {
            Err(format!("the definition of `{}` was not found", arrangement.name))
        }
    }
}

/// Takes out the structs of the file that nothing uses any more.
fn prune(document: &mut Document) {
    let words = |text: &str, name: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    };
    loop {
        let used = |name: &str| {
            let in_code = document
                .kernel
                .as_ref()
                .and_then(|kernel| kernel.value.code.as_ref())
                .is_none_or(|code| words(&code.value, name));
            let in_buffers = document.buffers.0.iter().any(|(_, buffer)| {
                buffer.value.ty.as_ref().is_some_and(|ty| words(&ty.value, name))
            });
            let in_structs = document.structs.0.iter().any(|(other, spec)| {
                other.value != name
                    && spec.value.fields.as_ref().is_some_and(|fields| {
                        fields.value.iter().any(|field| words(&field.value, name))
                    })
            });
            in_code || in_buffers || in_structs
        };
        let unused = document.structs.0.iter().position(|(name, _)| !used(&name.value));
        match unused {
            Some(at) => drop(document.structs.0.remove(at)),
            None => return,
        }
    }
}

/// A field as C declares it, as an array of `width` where that is not 1.
fn declare(ty: &Type, name: &str, width: u64, structs: &StructTable) -> String {
    let mut base = ty;
    let mut lens = String::new();
    while let Type::Array { element, len } = base {
        lens.push_str(&format!("[{len}]"));
        base = element;
    }
    let block = if width == 1 { String::new() } else { format!("[{width}]") };
    format!("{} {name}{block}{lens}", structs.name_of(base))
}

fn nowhere<T>(value: T) -> Located<T> {
    Located { value, start: 0, end: 0 }
}

fn buffer_mut<'d>(document: &'d mut Document, name: &str) -> Result<&'d mut Buffer, String> {
    document
        .buffers
        .0
        .iter_mut()
        .find(|(known, _)| known.value == name)
        .map(|(_, buffer)| &mut buffer.value)
        .ok_or_else(|| format!("there is no buffer `{name}`"))
}

fn set_parameter(document: &mut Document, name: &str, value: i128) {
    use scenario::document::{Literal, Param};
    for (known, param) in &mut document.params.0 {
        if known.value == name {
            let literal = Literal::Quantity(Quantity::Int(value));
            match &mut param.value {
                Param::Plain(plain) => *plain = literal,
                Param::Typed(typed) => typed.value.value = literal,
            }
        }
    }
}

/// Several buffers in the place of the whole, each with its type.
fn separate_buffer(
    document: &mut Document,
    name: &str,
    arrays: &[(FieldArray, String)],
) -> Result<(), String> {
    let Table(buffers) = &mut document.buffers;
    let at = buffers
        .iter()
        .position(|(known, _)| known.value == name)
        .ok_or_else(|| format!("there is no buffer `{name}`"))?;
    let (_, whole) = buffers.remove(at);
    for ((array, ty), place) in arrays.iter().zip(at..) {
        let part = Buffer {
            ty: Some(nowhere(ty.clone())),
            pitch: None,
            offset_bytes: None,
            ..whole.value.clone()
        };
        buffers.insert(place, (nowhere(array.name.clone()), nowhere(part)));
    }
    Ok(())
}

/// An extent in blocks of `width`.
fn divided(extent: &Quantity, width: u64) -> Quantity {
    match extent {
        Quantity::Int(n) => Quantity::Int((n + i128::from(width) - 1) / i128::from(width)),
        Quantity::Expr(text) => Quantity::Expr(format!("(({text}) + {}) / {width}", width - 1)),
    }
}

fn permutations(names: &[String]) -> Vec<Vec<String>> {
    let Some((first, rest)) = names.split_first() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for tail in permutations(rest) {
        for at in 0..=tail.len() {
            let mut order = tail.clone();
            order.insert(at, first.clone());
            all.push(order);
        }
    }
    all
}

/// Which vectors stand in for the fields.
struct VectorPlan {
    ty: String,
    per_element: u64,
    chunks: Vec<u64>,
    fields: Vec<(String, u64, u64)>,
}

impl VectorPlan {
    fn new(
        fields: &[(String, u64, Type)],
        bytes: u64,
        vector: u64,
        structs: &StructTable,
        uses: &[Use],
    ) -> Result<Self, String> {
        if !bytes.is_multiple_of(vector) {
            return Err(format!("elements of {bytes} B are no multiple of {vector} B"));
        }
        let used: BTreeSet<&str> = uses.iter().map(|found| found.field.as_str()).collect();
        let mut plan = Self {
            ty: String::new(),
            per_element: bytes / vector,
            chunks: Vec::new(),
            fields: Vec::new(),
        };
        let mut scalar: Option<Scalar> = None;
        for (name, offset, ty) in fields {
            if !used.contains(name.as_str()) {
                continue;
            }
            let Type::Scalar(found) = ty else {
                return Err(format!("the field `{name}` is no scalar"));
            };
            if *scalar.get_or_insert(*found) != *found {
                return Err("its fields are of several types".to_owned());
            }
            let chunk = offset / vector;
            if !plan.chunks.contains(&chunk) {
                plan.chunks.push(chunk);
            }
            plan.fields.push((name.clone(), chunk, offset % vector / found.bytes()));
        }
        let Some(scalar) = scalar else { return Err("no field of it is read".to_owned()) };
        if scalar.bytes() < 4 {
            return Err("vectors of fields of 1 and 2 bytes are not tried".to_owned());
        }
        let count = vector / scalar.bytes();
        if !(2..=4).contains(&count) {
            return Err(format!("there is no vector of {count} of its fields"));
        }
        // A vector must not take fields that nobody asks for.
        for (name, offset, ty) in fields {
            let touches = plan.chunks.iter().any(|chunk| {
                *offset < (chunk + 1) * vector && offset + structs.size_of(ty) > chunk * vector
            });
            if touches && !used.contains(name.as_str()) {
                return Err(format!(
                    "a vector would also read `{name}`, which the kernel does not"
                ));
            }
        }
        if plan.chunks.len() == plan.fields.len() {
            return Err("no two of the fields that are read lie in one vector".to_owned());
        }
        let vector_type = Type::Vector { element: scalar, count: count as u8 };
        plan.ty = structs.name_of(&vector_type);
        Ok(plan)
    }

    fn view(&self) -> Vectors<'_> {
        Vectors {
            ty: &self.ty,
            from: VectorsFrom::Structs { per_element: self.per_element },
            chunks: &self.chunks,
            fields: &self.fields,
        }
    }
}

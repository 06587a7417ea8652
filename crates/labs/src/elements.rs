//! Which elements a launch reads and writes, whatever the layout.
//!
//! An element has a name, that of its buffer with the fields that lead to it
//! (`p.x`), and a number. Indices are not part of the name: element 3 of the
//! `x[32]` of the second struct of `p` is `p.x` number 32 + 3, just as it is in
//! an array `x` that a lab says stands for `p.x`. Padding of rows and structs is
//! no element.

use scenario::eval::{Evaluator, Limits};
use scenario::types::{StructTable, Type};
use scenario::{Buffer, Diagnostic, Run};
use simulator::{OpKind, Space};
use std::collections::{BTreeMap, HashMap};

/// Scalars that an element of a buffer may have.
const MOST_SCALARS: usize = 1 << 12;

/// Elements that a launch may touch, each counted as often as a block touches
/// it.
const MOST_TOUCHES: usize = 1 << 23;

/// What happens to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Way {
    Read,
    Written,
    Updated,
}

impl Way {
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Written => "writes",
            Self::Updated => "updates",
        }
    }
}

/// One element that one block touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Touch {
    /// The block's number in launch order.
    pub(crate) block: u64,
    pub(crate) way: Way,
    /// Place among [`Touched::names`].
    pub(crate) name: usize,
    pub(crate) element: u64,
}

/// What a launch touches in global memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    pub(crate) names: Vec<String>,
    /// Bytes of an element, by name.
    pub(crate) bytes: BTreeMap<String, u64>,
    /// Each once, in order.
    pub(crate) touches: Vec<Touch>,
}

/// Why it cannot be said what a launch touches.
pub(crate) enum Untold {
    /// The kernel does something wrong.
    Fails(Box<Diagnostic>),
    /// In words.
    TooMuch(String),
}

impl Touched {
    /// What `run` touches. Names in `same` stand for others, those in `padding`
    /// for nothing.
    pub(crate) fn of(
        run: &Run,
        same: &BTreeMap<String, String>,
        padding: &[String],
        limits: Limits,
    ) -> Result<Self, Untold> {
        let fails = |error| Untold::Fails(Box::new(error));
        let bases = run.assumed_bases();
        let mut touched = Self::default();
        let mut places = Vec::new();
        for (buffer, base) in run.buffers.iter().zip(&bases) {
            places.push(Place::new(run, buffer, *base, same, padding, &mut touched)?);
        }
        let evaluator = Evaluator::new(run, &bases, limits).map_err(fails)?;
        let [x, y, _] = run.launch.grid;
        let mut too_many = false;
        evaluator
            .visit(|issue| {
                if issue.access.op.space != Space::Global || too_many {
                    return;
                }
                let way = match issue.access.op.kind {
                    OpKind::Load | OpKind::AsyncCopy => Way::Read,
                    OpKind::Store => Way::Written,
                    OpKind::Reduction(_) | OpKind::Atomic(_) => Way::Updated,
                };
                let [bx, by, bz] = issue.block;
                let block = (bz * y + by) * x + bx;
                for (_, address) in issue.access.active() {
                    let Some(place) = places.iter().find(|place| place.contains(address)) else {
                        continue;
                    };
                    place.each(address, u64::from(issue.access.width), |name, element| {
                        touched.touches.push(Touch { block, way, name, element });
                    });
                }
                if touched.touches.len() > MOST_TOUCHES {
                    touched.touches.sort_unstable();
                    touched.touches.dedup();
                    too_many = touched.touches.len() > MOST_TOUCHES / 2;
                }
            })
            .map_err(fails)?;
        if too_many {
            return Err(Untold::TooMuch(format!(
                "it touches more than {} elements",
                MOST_TOUCHES / 2
            )));
        }
        touched.touches.sort_unstable();
        touched.touches.dedup();
        Ok(touched)
    }

    /// The elements of a name that are touched in a way, ascending, whoever
    /// touches them.
    pub(crate) fn elements(&self, way: Way, name: &str) -> Vec<u64> {
        let Some(name) = self.names.iter().position(|known| known == name) else {
            return Vec::new();
        };
        let mut found: Vec<u64> = self
            .touches
            .iter()
            .filter(|touch| touch.way == way && touch.name == name)
            .map(|touch| touch.element)
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// A buffer's place in memory, and the elements in it.
struct Place {
    first: u64,
    bytes: u64,
    element_bytes: u64,
    row_bytes: u64,
    packed_row_bytes: u64,
    /// In order of offset.
    scalars: Vec<Scalar>,
}

/// A scalar of an element.
struct Scalar {
    offset: u64,
    bytes: u64,
    /// Place among the names; none for padding.
    name: Option<usize>,
    /// Its number among the element's scalars of this name, and how many there
    /// are.
    ordinal: u64,
    of: u64,
}

impl Place {
    fn new(
        run: &Run,
        buffer: &Buffer,
        base: u64,
        same: &BTreeMap<String, String>,
        padding: &[String],
        touched: &mut Touched,
    ) -> Result<Self, Untold> {
        let mut found = Vec::new();
        if !collect(&buffer.ty, &run.structs, buffer.name.clone(), 0, &mut found) {
            return Err(Untold::TooMuch(format!(
                "an element of `{}` has more than {MOST_SCALARS} scalars",
                buffer.name
            )));
        }
        found.sort_by_key(|(_, offset, _)| *offset);
        let mut of: HashMap<String, u64> = HashMap::new();
        let mut scalars = Vec::with_capacity(found.len());
        let mut names = Vec::with_capacity(found.len());
        for (name, offset, bytes) in found {
            let ordinal = of.entry(name.clone()).or_default();
            let place = (!padding.contains(&name)).then(|| {
                let name = same.get(&name).unwrap_or(&name);
                touched.bytes.insert(name.clone(), bytes);
                touched.names.iter().position(|known| known == name).unwrap_or_else(|| {
                    touched.names.push(name.clone());
                    touched.names.len() - 1
                })
            });
            scalars.push(Scalar { offset, bytes, name: place, ordinal: *ordinal, of: 1 });
            *ordinal += 1;
            names.push(name);
        }
        for (scalar, name) in scalars.iter_mut().zip(&names) {
            scalar.of = of.get(name).copied().unwrap_or(1);
        }
        let columns = buffer.shape.last().copied().unwrap_or(1).max(1);
        let packed = columns.saturating_mul(buffer.element_bytes).max(1);
        Ok(Self {
            first: base.saturating_add(buffer.offset_bytes),
            bytes: buffer.bytes,
            element_bytes: buffer.element_bytes.max(1),
            row_bytes: buffer.pitch.unwrap_or(packed).max(1),
            packed_row_bytes: packed,
            scalars,
        })
    }

    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.first).is_some_and(|offset| offset < self.bytes)
    }

    /// Calls `visit` with name and number of every scalar of an access.
    fn each(&self, address: u64, width: u64, mut visit: impl FnMut(usize, u64)) {
        let offset = address - self.first;
        let (row, byte) = (offset / self.row_bytes, offset % self.row_bytes);
        let mut at = row * self.packed_row_bytes + byte;
        let end = at + width;
        // Padding at the row's end.
        if byte >= self.packed_row_bytes {
            return;
        }
        while at < end {
            let (element, byte) = (at / self.element_bytes, at % self.element_bytes);
            let next = self.scalars.partition_point(|scalar| scalar.offset + scalar.bytes <= byte);
            let Some(scalar) = self.scalars.get(next) else {
                at = (element + 1) * self.element_bytes;
                continue;
            };
            if scalar.offset < byte + (end - at)
                && let Some(name) = scalar.name
            {
                visit(name, element * scalar.of + scalar.ordinal);
            }
            at = element * self.element_bytes + scalar.offset + scalar.bytes;
        }
    }
}

/// The scalars of a type: name without indices, offset, bytes. `false` where
/// they are too many.
fn collect(
    ty: &Type,
    structs: &StructTable,
    name: String,
    offset: u64,
    found: &mut Vec<(String, u64, u64)>,
) -> bool {
    match ty {
        Type::Struct(id) => structs.get(*id).fields.iter().all(|field| {
            let name = format!("{name}.{}", field.name);
            collect(&field.ty, structs, name, offset + field.offset, found)
        }),
        Type::Vector { element, count } => {
            let bytes = element.bytes();
            found.extend(
                (0..u64::from(*count)).map(|at| (name.clone(), offset + at * bytes, bytes)),
            );
            found.len() <= MOST_SCALARS
        }
        Type::Array { element, len } => {
            let bytes = structs.size_of(element);
            *len <= MOST_SCALARS as u64
                && (0..*len)
                    .all(|at| collect(element, structs, name.clone(), offset + at * bytes, found))
        }
        other => {
            found.push((name, offset, structs.size_of(other)));
            found.len() <= MOST_SCALARS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::{Embedded, Options, Scenario};

    fn touched(buffers: &str, code: &str, same: &[(&str, &str)]) -> Touched {
        let text = format!(
            "[launch]\ngrid = [2]\nblock = [32]\n\
             [struct.P]\nfields = [\"float x\", \"float y\"]\n\
             [struct.B]\nfields = [\"float x[32]\", \"float y[32]\"]\n\
             [buffers]\n{buffers}\n[kernel]\ncode = \"int i = blockIdx.x * 32 + threadIdx.x; {code}\"\n"
        );
        let scenario = Scenario::from_text("t.toml", &text, &Embedded(&[])).expect("a scenario");
        let plans = scenario.runs(&[], Options::default()).expect("runs");
        let run = plans[0].build().unwrap_or_else(|errors| panic!("{errors}"));
        let same = same.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        match Touched::of(&run, &same, &[], Limits::default()) {
            Ok(touched) => touched,
            Err(_) => panic!("it is told"),
        }
    }

    #[test]
    fn the_layout_plays_no_part() {
        let aos = touched("p = { type = \"P\", shape = [64] }", "load(p[i].y);", &[]);
        let soa = touched("y = { type = \"float\", shape = [64] }", "load(y[i]);", &[("y", "p.y")]);
        let aosoa = touched("p = { type = \"B\", shape = [2] }", "load(p[i / 32].y[i % 32]);", &[]);
        let all: Vec<u64> = (0..64).collect();
        for layout in [&aos, &soa, &aosoa] {
            assert_eq!(layout.elements(Way::Read, "p.y"), all);
            assert!(layout.elements(Way::Read, "p.x").is_empty());
            assert!(layout.elements(Way::Written, "p.y").is_empty());
        }
    }

    #[test]
    fn a_wide_access_touches_all_its_scalars_and_no_padding() {
        let wide = touched(
            "v = { type = \"float\", shape = [8, 16], pitch = 128 }",
            "if (i < 4) store(((float4*)((char*)v + 128))[i]);",
            &[],
        );
        assert_eq!(wide.elements(Way::Written, "v"), (16..32).collect::<Vec<u64>>());
        assert_eq!(wide.bytes["v"], 4);
        assert!(wide.touches.iter().all(|touch| touch.block == 0));
    }
}

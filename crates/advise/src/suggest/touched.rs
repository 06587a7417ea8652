//! What the threads of a run touch, in the words of the original layout: which
//! fields of which elements of which buffer, whatever the addresses.

use super::candidate::Layout;
use crate::layout::{Geometry, Part, scalars};
use crate::sample::{Options, Sample};
use scenario::{Buffer, Diagnostic, Run};
use simulator::{OpKind, Space};
use std::collections::{BTreeSet, HashMap};

/// Warp accesses that are compared, about.
const ACCESSES: usize = 1 << 11;

/// Scalars that an element may have: 16 fields of an AoSoA of 128.
const MOST_SCALARS: usize = 1 << 11;

/// One scalar that a thread touches: block, thread, buffer, element, field, and
/// whether it is read, written or both.
type Touch = (usize, u32, String, u64, String, Way);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Read,
    Written,
    Updated,
}

/// What the threads of some blocks touch.
pub(super) struct Touched {
    blocks: Vec<[u64; 3]>,
    touches: BTreeSet<Touch>,
}

impl Touched {
    /// Of a run in `layout`; in the same blocks as `like`.
    pub(super) fn of(run: &Run, layout: &Layout, like: Option<&Self>) -> Result<Self, Diagnostic> {
        let bases = run.assumed_bases();
        let options = Options { accesses: ACCESSES, ..Options::default() };
        let sample = match like {
            Some(like) => Sample::of_blocks(run, &bases, &like.blocks, &options)?,
            None => Sample::take(run, &bases, &options)?,
        };
        let buffers: Vec<Decoder<'_>> = run
            .buffers
            .iter()
            .zip(&bases)
            .map(|(buffer, base)| Decoder::new(run, buffer, *base, layout))
            .collect();
        let mut touches = BTreeSet::new();
        for (block, range) in sample.blocks.iter().enumerate() {
            for at in range.clone() {
                let (Some(issue), Some(Some(buffer))) =
                    (sample.issues.get(at), sample.buffers.get(at))
                else {
                    continue;
                };
                if issue.access.op.space != Space::Global {
                    continue;
                }
                let Some(decoder) = buffers.get(*buffer) else { continue };
                let way = match issue.access.op.kind {
                    OpKind::Load | OpKind::AsyncCopy => Way::Read,
                    OpKind::Store => Way::Written,
                    OpKind::Reduction(_) | OpKind::Atomic(_) => Way::Updated,
                };
                for (lane, address) in issue.access.active() {
                    let thread = issue.warp * 32 + lane as u32;
                    decoder.each(address, u64::from(issue.access.width), |element, field| {
                        let name = decoder.name.clone();
                        touches.insert((block, thread, name, element, field, way));
                    });
                }
            }
        }
        Ok(Self { blocks: sample.places, touches })
    }

    /// The first thing that one of two touches and the other does not.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let say = |touch: &Touch, verb: &str| {
            let (block, thread, buffer, element, field, way) = touch;
            let [x, y, z] = self.blocks.get(*block).copied().unwrap_or_default();
            let what = match way {
                Way::Read => "read",
                Way::Written => "write",
                Way::Updated => "update",
            };
            format!(
                "thread {thread} of block ({x}, {y}, {z}) {verb} {what} `{buffer}[{element}]{field}`"
            )
        };
        let lost = self.touches.difference(&other.touches).next();
        let added = other.touches.difference(&self.touches).next();
        lost.map(|touch| say(touch, "would no longer"))
            .or_else(|| added.map(|touch| say(touch, "would also")))
    }
}

/// From addresses of a buffer to elements and fields of the original one.
struct Decoder<'a> {
    /// The original buffer's name.
    name: String,
    geometry: Geometry,
    /// In order of place.
    scalars: Vec<(String, Part)>,
    /// The fields that the parts of its elements are, where it stands for some.
    parts: Option<&'a [(String, String)]>,
    /// Elements in one, in an AoSoA.
    block: u64,
    /// Names of fields and places in the block, for the scalars.
    fields: HashMap<usize, (String, u64)>,
}

impl<'a> Decoder<'a> {
    fn new(run: &Run, buffer: &Buffer, base: u64, layout: &'a Layout) -> Self {
        let array = layout.array(&buffer.name);
        let name = array.map_or(&buffer.name, |array| &array.buffer).clone();
        let parts = array.map(|array| array.parts.as_slice());
        let mut scalars = scalars(&buffer.ty, &run.structs, MOST_SCALARS).unwrap_or_default();
        scalars.sort_by_key(|(_, part)| part.offset);
        let block = layout.block(buffer.type_name.trim());
        let fields = scalars
            .iter()
            .enumerate()
            .map(|(at, (scalar, _))| {
                let (scalar, inside) =
                    if block > 1 { without_index(scalar) } else { (scalar.clone(), 0) };
                (at, (parts.map_or(scalar.clone(), |parts| original(parts, &scalar)), inside))
            })
            .collect();
        Self { name, geometry: Geometry::of(buffer, base), scalars, parts, block, fields }
    }

    /// Calls `visit` for every scalar of an access; padding is nothing.
    fn each(&self, address: u64, width: u64, mut visit: impl FnMut(u64, String)) {
        let Some(flat) = self.geometry.flat(address) else {
            // Padding of rows, which no element owns.
            let part = self.parts.and_then(|parts| parts.first());
            return visit(u64::MAX, part.map_or(String::new(), |(_, field)| field.clone()));
        };
        let bytes = self.geometry.element_bytes;
        let (mut at, end) = (flat, flat + width);
        while at < end {
            let (element, byte) = (at / bytes, at % bytes);
            let next = self.scalars.partition_point(|(_, part)| part.offset + part.bytes <= byte);
            let Some((_, part)) = self.scalars.get(next) else {
                at = (element + 1) * bytes;
                continue;
            };
            if part.offset < byte + (end - at)
                && let Some((field, inside)) = self.fields.get(&next)
            {
                visit(element * self.block + inside, field.clone());
            }
            at = element * bytes + part.offset + part.bytes;
        }
    }
}

/// The original name of a scalar of an array that stands for fields.
fn original(parts: &[(String, String)], scalar: &str) -> String {
    let found = parts.iter().find_map(|(part, field)| {
        let rest = scalar.strip_prefix(part.as_str())?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| format!(".{field}{rest}"))
    });
    found.unwrap_or_else(|| scalar.to_owned())
}

/// `.x[5].y` as `.x.y` and 5.
fn without_index(scalar: &str) -> (String, u64) {
    let Some((before, rest)) = scalar.split_once('[') else { return (scalar.to_owned(), 0) };
    let Some((index, after)) = rest.split_once(']') else { return (scalar.to_owned(), 0) };
    (format!("{before}{after}"), index.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_a_block_is_taken_out_of_a_name() {
        assert_eq!(without_index(".x[5]"), (".x".to_owned(), 5));
        assert_eq!(without_index(".p[12].y[1]"), (".p.y[1]".to_owned(), 12));
        assert_eq!(without_index(".x"), (".x".to_owned(), 0));
    }
}

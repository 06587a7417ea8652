//! Which access of one run is which of another.
//!
//! Accesses carry the label that their author gave, or else their own text. An
//! edit changes texts and moves lines, so a label alone would lose just the
//! accesses that changed. They are matched in six passes, each over what the
//! one before left, and only between accesses that do the same (load, store or
//! update) in the same memory:
//!
//! 1. the same label;
//! 2. the same buffer (the text before the index), line and width, where only
//!    one access on either side has them;
//! 3. the same buffer and width, where only one on either side has them;
//! 4. the same line and width, where only one on either side has them;
//! 5. the same width, in order, where both sides have as many;
//! 6. in order, where both sides have as many.

use record::Access;
use simulator::Space;
use std::collections::BTreeMap;

/// What two accesses had in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Their label.
    Label,
    /// The text before the index.
    Buffer,
    /// Line and width.
    Line,
    /// Their place among the accesses of their kind.
    Order,
}

/// Two accesses that are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index on the first side.
    pub a: usize,
    /// Index on the second side.
    pub b: usize,
    /// Why they belong together.
    pub by: By,
}

/// The accesses of two runs, matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairing {
    /// Those that both have, in the second side's order.
    pub pairs: Vec<Pair>,
    /// Indices of those that only the first side has.
    pub only_a: Vec<usize>,
    /// Indices of those that only the second side has.
    pub only_b: Vec<usize>,
}

/// What an access does, without how: a load through another cache operator is
/// still a load, an update whose result is used still an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Load,
    Store,
    Update,
    Copy,
}

fn role(access: &Access) -> (&'static str, Role) {
    let stem = access.op.split('.').next().unwrap_or("");
    let role = match stem {
        "cp" => Role::Copy,
        _ if access.atomic.is_some() || stem.starts_with("red") || stem.starts_with("atom") => {
            Role::Update
        }
        _ if stem.starts_with("st") => Role::Store,
        _ => Role::Load,
    };
    let space = match access.space {
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Local => "local",
    };
    (space, role)
}

/// Matches the accesses of two runs.
///
/// ```
/// use coalescope_advise::pairing::{By, Pair, pair};
/// use record::Access;
/// use simulator::{Op, Totals};
///
/// let access = |label, line| Access::new(label, Some(line), Op::LOAD, 4, Totals::default());
/// // An edit changed the index and inserted a line above.
/// let matched = pair(&[access("in[i]", 7)], &[access("in[2 * i]", 8)]);
/// assert_eq!(matched.pairs, [Pair { a: 0, b: 0, by: By::Buffer }]);
/// ```
pub fn pair(a: &[Access], b: &[Access]) -> Pairing {
    let mut free_a: Vec<usize> = (0..a.len()).collect();
    let mut free_b: Vec<usize> = (0..b.len()).collect();
    let mut pairs = Vec::new();
    for (by, key) in PASSES {
        let groups_a = groups(a, &free_a, key);
        for (of, members_b) in groups(b, &free_b, key) {
            let Some(members_a) = groups_a.get(&of) else { continue };
            let unique = members_a.len() == 1 && members_b.len() == 1;
            let alike = members_a.len() == members_b.len() && (by == By::Order || unique);
            if !alike {
                continue;
            }
            for (&a, b) in members_a.iter().zip(members_b) {
                pairs.push(Pair { a, b, by });
                free_a.retain(|&free| free != a);
                free_b.retain(|&free| free != b);
            }
        }
    }
    pairs.sort_by_key(|pair| pair.b);
    Pairing { pairs, only_a: free_a, only_b: free_b }
}

/// What a pass compares: label, line, width.
type Key<'a> = (Option<&'a str>, Option<u32>, Option<u8>);

/// How a pass makes its key.
type MakeKey = fn(&Access) -> Key<'_>;

const PASSES: [(By, MakeKey); 6] = [
    (By::Label, |access| (Some(&access.label), None, None)),
    (By::Buffer, |access| (Some(buffer(&access.label)), access.line, Some(access.width))),
    (By::Buffer, |access| (Some(buffer(&access.label)), None, Some(access.width))),
    (By::Line, |access| (None, access.line, Some(access.width))),
    (By::Order, |access| (None, None, Some(access.width))),
    (By::Order, |_| (None, None, None)),
];

/// The buffer in a label that is the access's text; else all of it.
fn buffer(label: &str) -> &str {
    label.split('[').next().unwrap_or(label).trim()
}

/// The accesses among `members` that share role and key, in order.
fn groups<'a>(
    accesses: &'a [Access],
    members: &[usize],
    key: MakeKey,
) -> BTreeMap<(&'static str, Role, Key<'a>), Vec<usize>> {
    let mut groups = BTreeMap::<_, Vec<usize>>::new();
    for &member in members {
        if let Some(access) = accesses.get(member) {
            let (space, role) = role(access);
            groups.entry((space, role, key(access))).or_default().push(member);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::{Op, Totals};

    fn access(label: &str, line: u32, op: Op, width: u8) -> Access {
        Access::new(label, Some(line), op, width, Totals::default())
    }

    fn by_number(pairing: &Pairing) -> Vec<(usize, usize, By)> {
        pairing.pairs.iter().map(|pair| (pair.a, pair.b, pair.by)).collect()
    }

    #[test]
    fn labels_come_first() {
        let a = [access("x", 1, Op::LOAD, 4), access("y", 2, Op::LOAD, 4)];
        let b = [access("y", 1, Op::LOAD, 4), access("x", 2, Op::LOAD, 4)];
        assert_eq!(by_number(&pair(&a, &b)), [(1, 0, By::Label), (0, 1, By::Label)]);
    }

    #[test]
    fn a_load_is_never_a_store() {
        let a = [access("x", 1, Op::LOAD, 4)];
        let b = [access("x", 1, Op::STORE, 4), access("x", 1, Op::SHARED_LOAD, 4)];
        let pairing = pair(&a, &b);
        assert!(pairing.pairs.is_empty());
        assert_eq!((pairing.only_a, pairing.only_b), (vec![0], vec![0, 1]));
    }

    #[test]
    fn a_changed_index_is_found_by_its_buffer() {
        let a = [access("in[i]", 7, Op::LOAD, 4), access("in[i + 1]", 8, Op::LOAD, 4)];
        let b = [access("in[2 * i]", 7, Op::LOAD, 4)];
        let pairing = pair(&a, &b);
        assert_eq!(by_number(&pairing), [(0, 0, By::Buffer)]);
        assert_eq!(pairing.only_a, [1]);
        // Another buffer in the same line.
        let b = [access("other[2 * i]", 7, Op::LOAD, 4)];
        assert_eq!(by_number(&pair(&a, &b)), [(0, 0, By::Line)]);
    }

    #[test]
    fn a_widened_access_is_found_by_its_order() {
        let a = [access("in[i]", 7, Op::LOAD, 4), access("out[i]", 7, Op::STORE, 4)];
        let b = [access("v[i]", 9, Op::LOAD, 16), access("w[i]", 9, Op::STORE, 16)];
        assert_eq!(by_number(&pair(&a, &b)), [(0, 0, By::Order), (1, 1, By::Order)]);
    }

    #[test]
    fn what_may_be_several_is_not_guessed() {
        let a = [access("p[i]", 7, Op::LOAD, 4)];
        let b = [access("q[i]", 9, Op::LOAD, 4), access("r[i]", 9, Op::LOAD, 4)];
        let pairing = pair(&a, &b);
        assert!(pairing.pairs.is_empty());
        assert_eq!((pairing.only_a, pairing.only_b), (vec![0], vec![0, 1]));
    }
}

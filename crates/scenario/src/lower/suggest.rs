//! Near misses of names.

/// The name most like `name`, if one is close: at most a third of its letters
/// differ, or only their case.
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let limit = (name.chars().count() / 3).max(1);
    names
        .filter(|candidate| *candidate != name)
        .filter_map(|candidate| {
            if candidate.eq_ignore_ascii_case(name) {
                return Some((0, candidate));
            }
            let distance = distance(name, candidate);
            let shorter = name.chars().count().min(candidate.chars().count());
            (distance <= limit && distance < shorter).then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, remove, replace or swap with a neighbour (optimal string
/// alignment distance).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses() {
        let names = ["stride", "threadIdx", "n", "width", "in", "out"];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("strdie"), Some("stride"));
        assert_eq!(near("threadidx"), Some("threadIdx"));
        assert_eq!(near("N"), Some("n"));
        assert_eq!(near("m"), None);
        assert_eq!(near("witdh"), Some("width"));
        assert_eq!(near("colour"), None);
    }
}

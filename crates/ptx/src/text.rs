//! Names and comments that assemblers and compilers accept.

/// `name` with every character that C does not allow in an identifier replaced
/// by `_`. It may start with a digit: a prefix is put before it.
pub(crate) fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// `line` as one line of printable ASCII, which is all that `ptxas` reads even
/// in comments; other characters are escaped. A backslash at the end would
/// continue the line.
pub(crate) fn ascii(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            ' '..='~' => out.push(c),
            c if c.is_whitespace() => out.push(' '),
            c => out.extend(c.escape_unicode()),
        }
    }
    if out.ends_with('\\') {
        out.push('.');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stay_one_ascii_line() {
        assert_eq!(ascii("a\nb\tc"), "a b c");
        assert_eq!(ascii("读 x\\"), "\\u{8bfb} x\\.");
    }

    #[test]
    fn names_keep_their_length() {
        assert_eq!(identifier("red64-x.y"), "red64_x_y");
    }
}

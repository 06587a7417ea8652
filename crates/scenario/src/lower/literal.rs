//! Numbers and characters as C writes them.

use crate::program::Scalar;

/// An integer literal with the type that C++ gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    pub(crate) ty: Scalar,
    /// The bits of a `U64` above `i64::MAX` are reinterpreted.
    pub(crate) value: i64,
}

/// A floating-point literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Float {
    pub(crate) ty: Scalar,
    pub(crate) value: f64,
}

/// Why a literal is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiteralError {
    /// Not a number of C.
    Malformed,
    /// Does not fit `unsigned long long` (decimal without `u`: `long long`).
    TooLarge,
}

/// Whether a number is floating point: it has a `.` or an exponent.
pub(crate) fn is_float(text: &str) -> bool {
    if is_hex(text) { text.contains(['p', 'P']) } else { text.contains(['.', 'e', 'E']) }
}

fn is_hex(text: &str) -> bool {
    text.starts_with("0x") || text.starts_with("0X")
}

/// Reads an integer literal: decimal, hexadecimal, octal or binary, with `'`
/// between digits and a suffix. Its type is the first of `int`, `unsigned`
/// (hexadecimal and its like only, or with `u`), `long long`, `unsigned long
/// long` that holds it (C++17, [lex.icon]).
pub(crate) fn integer(text: &str) -> Result<Integer, LiteralError> {
    let text: String = text.chars().filter(|&c| c != '\'').collect();
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        [b'0', b'0'..=b'9', ..] => (8, &text[1..]),
        _ => (10, &text[..]),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    let (unsigned, long) = match suffix.to_ascii_lowercase().as_str() {
        "" => (false, false),
        "u" => (true, false),
        "l" | "ll" => (false, true),
        "ul" | "lu" | "ull" | "llu" | "uz" | "zu" => (true, true),
        "z" => (false, true),
        _ => return Err(LiteralError::Malformed),
    };
    if digits.is_empty() {
        return Err(LiteralError::Malformed);
    }
    let value = u64::from_str_radix(digits, radix).map_err(|_| LiteralError::TooLarge)?;
    let may_be_unsigned = unsigned || radix != 10;
    let fits = |ty| match ty {
        Scalar::I32 => !unsigned && !long && i32::try_from(value).is_ok(),
        Scalar::U32 => may_be_unsigned && !long && u32::try_from(value).is_ok(),
        Scalar::I64 => !unsigned && i64::try_from(value).is_ok(),
        _ => may_be_unsigned,
    };
    let ty = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64]
        .into_iter()
        .find(|&ty| fits(ty))
        .ok_or(LiteralError::TooLarge)?;
    Ok(Integer { ty, value: value as i64 })
}

/// Reads a floating-point literal: `float` with `f`, else `double`.
pub(crate) fn float(text: &str) -> Result<Float, LiteralError> {
    let text: String = text.chars().filter(|&c| c != '\'').collect();
    if is_hex(&text) {
        return hex_float(&text[2..]);
    }
    let (digits, ty) = float_suffix(&text);
    let value: f64 = digits.parse().map_err(|_| LiteralError::Malformed)?;
    Ok(Float { ty, value })
}

fn float_suffix(text: &str) -> (&str, Scalar) {
    match text.as_bytes().last() {
        Some(b'f' | b'F') => (&text[..text.len() - 1], Scalar::F32),
        Some(b'l' | b'L') => (&text[..text.len() - 1], Scalar::F64),
        _ => (text, Scalar::F64),
    }
}

/// `1.8p3` after `0x`.
fn hex_float(text: &str) -> Result<Float, LiteralError> {
    let (text, ty) = float_suffix(text);
    let (mantissa, exponent) = text.split_once(['p', 'P']).ok_or(LiteralError::Malformed)?;
    let exponent: i32 = exponent.parse().map_err(|_| LiteralError::Malformed)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut value = 0.0_f64;
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = digit.to_digit(16).ok_or(LiteralError::Malformed)?;
        value = value * 16.0 + f64::from(digit);
    }
    let exponent = exponent.saturating_sub(4 * fraction.len() as i32);
    Ok(Float { ty, value: value * 2.0_f64.powi(exponent) })
}

/// The value of a character literal, quotes included.
pub(crate) fn character(text: &str) -> Result<i64, LiteralError> {
    let inner = text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''))
        .ok_or(LiteralError::Malformed)?;
    let mut chars = inner.chars();
    let value = match chars.next().ok_or(LiteralError::Malformed)? {
        '\\' => match chars.next().ok_or(LiteralError::Malformed)? {
            'n' => 10,
            't' => 9,
            'r' => 13,
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'v' => 11,
            'x' => {
                let rest = chars.as_str();
                chars = "".chars();
                i64::from(
                    u8::from_str_radix(rest, 16)
                        .map_err(|_| LiteralError::Malformed)?
                        .cast_signed(),
                )
            }
            c @ '0'..='7' => {
                let mut value = i64::from(c.to_digit(8).unwrap_or(0));
                for c in chars.by_ref() {
                    value = value * 8 + i64::from(c.to_digit(8).ok_or(LiteralError::Malformed)?);
                    if value > 255 {
                        return Err(LiteralError::TooLarge);
                    }
                }
                i64::from((value as u8).cast_signed())
            }
            c @ ('\\' | '\'' | '"' | '?') => c as i64,
            _ => return Err(LiteralError::Malformed),
        },
        c if c.is_ascii() => c as i64,
        _ => return Err(LiteralError::Malformed),
    };
    if chars.next().is_some() { Err(LiteralError::Malformed) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_the_types_of_cpp() {
        for (text, ty, value) in [
            ("0", Scalar::I32, 0),
            ("2147483647", Scalar::I32, 2_147_483_647),
            ("2147483648", Scalar::I64, 2_147_483_648),
            ("0x7fffffff", Scalar::I32, 0x7fff_ffff),
            ("0xFFFFFFFF", Scalar::U32, 0xffff_ffff),
            ("0x100000000", Scalar::I64, 0x1_0000_0000),
            ("0xffffffffffffffff", Scalar::U64, -1),
            ("1u", Scalar::U32, 1),
            ("4294967296u", Scalar::U64, 4_294_967_296),
            ("1ll", Scalar::I64, 1),
            ("1'000'000uLL", Scalar::U64, 1_000_000),
            ("017", Scalar::I32, 15),
            ("0b1011", Scalar::I32, 11),
        ] {
            assert_eq!(integer(text), Ok(Integer { ty, value }), "{text}");
        }
        assert_eq!(integer("9223372036854775808"), Err(LiteralError::TooLarge));
        assert_eq!(integer("0x1ffffffffffffffff"), Err(LiteralError::TooLarge));
        for text in ["", "0x", "1q", "08", "1.5"] {
            assert_eq!(integer(text), Err(LiteralError::Malformed), "{text}");
        }
    }

    #[test]
    fn floats_and_characters() {
        assert_eq!(float("1.5f"), Ok(Float { ty: Scalar::F32, value: 1.5 }));
        assert_eq!(float("1e3"), Ok(Float { ty: Scalar::F64, value: 1000.0 }));
        assert_eq!(float(".5F"), Ok(Float { ty: Scalar::F32, value: 0.5 }));
        assert_eq!(float("0x1.8p1"), Ok(Float { ty: Scalar::F64, value: 3.0 }));
        assert!(is_float("1.f") && is_float("1e3") && !is_float("0x1e3") && !is_float("12u"));
        assert_eq!(character("'a'"), Ok(97));
        assert_eq!(character("'\\n'"), Ok(10));
        assert_eq!(character("'\\xff'"), Ok(-1));
        assert_eq!(character("'\\0'"), Ok(0));
        assert_eq!(character("'ab'"), Err(LiteralError::Malformed));
    }
}

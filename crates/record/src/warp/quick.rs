//! The usual line, read byte by byte.
//!
//! Knows the contract's fields in any order and skips others, with white space
//! anywhere, plain ASCII text, and whole numbers without sign; `id` may also be
//! negative or `null`. Whatever else JSON may hold is left to [`super::parse`], which
//! reads all of it: [`fields`] gives up, it never reports an error. A property
//! test holds the two together.

use std::borrow::Cow;

use simulator::WARP_LANES;

use super::parse::Fields;

/// The fields of a usual line; `None` where the line is not one.
pub(super) fn fields(line: &[u8]) -> Option<Fields<'_>> {
    if line.len() > super::MAX_LINE_BYTES {
        return None;
    }
    let mut cursor = Cursor { rest: line };
    let (mut id, mut arch, mut op, mut width, mut mask) = (None, None, None, None, None);
    let (mut addresses, mut shared_addresses, mut atomic, mut value_type) =
        (None, None, None, None);
    cursor.take(b'{')?;
    loop {
        let key = cursor.text()?;
        cursor.take(b':')?;
        let again = match key {
            "id" => id.replace(cursor.id()?).is_some(),
            "arch" => arch.replace(cursor.text()?).is_some(),
            "op" => op.replace(cursor.text()?).is_some(),
            "width" => width.replace(cursor.number()?).is_some(),
            "mask" => mask.replace(cursor.number()?).is_some(),
            "addresses" => addresses.replace(cursor.numbers()?).is_some(),
            "shared_addresses" => shared_addresses.replace(cursor.numbers()?).is_some(),
            "atomic" => atomic.replace(cursor.text()?).is_some(),
            "type" => value_type.replace(cursor.text()?).is_some(),
            // The complete reader says what is wrong with it.
            other if super::parse::is_slip_of_key(other) => return None,
            _ => {
                cursor.skip_plain()?;
                false
            }
        };
        if again {
            return None;
        }
        if cursor.take(b',').is_none() {
            break;
        }
    }
    cursor.take(b'}')?;
    cursor.skip_space();
    if !cursor.rest.is_empty() {
        return None;
    }
    Some(Fields {
        id,
        arch: arch.map(Cow::Borrowed),
        op: Cow::Borrowed(op?),
        width: width?,
        mask: match mask {
            Some(mask) => u32::try_from(mask).ok()?,
            None => u32::MAX,
        },
        addresses: addresses?,
        shared_addresses,
        atomic: atomic.map(Cow::Borrowed),
        value_type: value_type.map(Cow::Borrowed),
    })
}

/// The part of a line that is still to be read.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes `byte`, and white space before it.
    #[inline]
    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        let (&first, rest) = self.rest.split_first()?;
        (first == byte).then(|| self.rest = rest)
    }

    /// Text without escapes, of printable ASCII.
    #[inline]
    fn text(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        let end = self.rest.iter().position(|byte| !plain(byte))?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(b"\"")?;
        std::str::from_utf8(text).ok()
    }

    /// A whole number below 2⁶⁴.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        self.skip_space();
        let mut rest = self.rest;
        let mut value = 0u64;
        if let Some(eight) = rest.first_chunk().and_then(eight_digits) {
            (value, rest) = (eight, &rest[8..]);
            if let Some(four) = rest.first_chunk().and_then(four_digits) {
                (value, rest) = (value * 10_000 + four, &rest[4..]);
            }
        }
        while let [digit @ b'0'..=b'9', tail @ ..] = rest {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            rest = tail;
        }
        let digits = self.rest.len() - rest.len();
        // 10^19 is the largest power of ten below 2^64.
        if digits > 19 {
            value = std::str::from_utf8(&self.rest[..digits]).ok()?.parse().ok()?;
        }
        let leading_zero = digits > 1 && self.rest.first() == Some(&b'0');
        // A fraction or an exponent is not for here.
        if digits == 0 || leading_zero || matches!(rest, [b'.' | b'e' | b'E', ..]) {
            return None;
        }
        self.rest = rest;
        Some(value)
    }

    /// An array with one number for each lane.
    #[inline]
    fn numbers(&mut self) -> Option<[u64; WARP_LANES]> {
        let mut numbers = [0; WARP_LANES];
        self.take(b'[')?;
        for (lane, number) in numbers.iter_mut().enumerate() {
            if lane > 0 {
                self.take(b',')?;
            }
            *number = self.number()?;
        }
        self.take(b']')?;
        Some(numbers)
    }

    /// Skips the value of an unknown field: plain text or a whole number.
    #[inline]
    fn skip_plain(&mut self) -> Option<()> {
        self.skip_space();
        match self.rest.first()? {
            b'"' => self.text().map(drop),
            _ => self.number().map(drop),
        }
    }

    /// The text of an id: a whole number, plain text, or null.
    #[inline]
    fn id(&mut self) -> Option<&'a str> {
        self.skip_space();
        let before = self.rest;
        match before.first()? {
            b'"' => {
                self.text()?;
            }
            b'n' => self.rest = before.strip_prefix(b"null")?,
            b'-' => {
                self.rest = &before[1..];
                // No space between sign and digits.
                self.rest.first().filter(|byte| byte.is_ascii_digit())?;
                self.number()?;
            }
            _ => {
                self.number()?;
            }
        }
        std::str::from_utf8(&before[..before.len() - self.rest.len()]).ok()
    }
}

/// The number that eight digits write; `None` where one is no digit.
///
/// All eight at once: each byte's digit, then each pair of digits, each pair of
/// pairs, and so on, in the lanes of one 64-bit word.
#[inline]
fn eight_digits(bytes: &[u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(*bytes);
    // A byte is a digit if its upper half is 3, and stays so with 6 added.
    let upper = word & 0xf0f0_f0f0_f0f0_f0f0;
    let upper_plus = word.wrapping_add(0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0;
    if upper != 0x3030_3030_3030_3030 || upper_plus != 0x3030_3030_3030_3030 {
        return None;
    }
    let digits = word & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff)
}

/// The number that four digits write.
#[inline]
fn four_digits(bytes: &[u8; 4]) -> Option<u64> {
    let [a, b, c, d] = *bytes;
    eight_digits(&[b'0', b'0', b'0', b'0', a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_digits_are_read_at_once() {
        assert_eq!(eight_digits(b"12345678"), Some(12_345_678));
        assert_eq!(eight_digits(b"00000000"), Some(0));
        assert_eq!(eight_digits(b"99999999"), Some(99_999_999));
        for place in 0..8 {
            for byte in (0..=255).filter(|byte: &u8| !byte.is_ascii_digit()) {
                let mut bytes = *b"12345678";
                bytes[place] = byte;
                assert_eq!(eight_digits(&bytes), None, "{bytes:?}");
            }
        }
    }

    #[test]
    fn numbers_end_where_they_should() {
        let number = |text: &str| {
            let mut cursor = Cursor { rest: text.as_bytes() };
            cursor.number().map(|value| (value, cursor.rest.len()))
        };
        assert_eq!(number("0,"), Some((0, 1)));
        assert_eq!(number(" 18446744073709551615]"), Some((u64::MAX, 1)));
        assert_eq!(number("18446744073709551616]"), None);
        for digits in 1..=20 {
            let text = &"12345678901234567890"[..digits];
            assert_eq!(number(text), Some((text.parse().unwrap(), 0)));
        }
        assert_eq!(number("123456789012x"), Some((123_456_789_012, 1)));
        for not in ["01", "00000000", "1.0", "1e3", "12345678.5", "12345678E1", "-1", "", "x"] {
            assert_eq!(number(not), None, "{not}");
        }
    }
}

//! A line of any shape, read with serde_json; and what a line's fields must
//! obey.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use simulator::{AccessError, LaneMask, Op, RuleSet, WARP_LANES, WarpAccess};

/// A good line.
#[derive(Clone, Debug, PartialEq)]
pub struct WarpLine<'a> {
    /// The JSON text of its id.
    pub id: &'a str,
    /// The access.
    pub access: WarpAccess,
    /// The rule set that it is for.
    pub rules: &'a RuleSet,
}

/// A bad line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError<'a> {
    /// The JSON text of its id, if it could be read.
    pub id: Option<&'a str>,
    /// What is wrong, and what to do about it.
    pub message: String,
}

impl fmt::Display for LineError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LineError<'_> {}

/// A line's fields, each of its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fields<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) arch: Option<Cow<'a, str>>,
    pub(super) op: Cow<'a, str>,
    pub(super) width: u64,
    pub(super) mask: u32,
    pub(super) addresses: [u64; WARP_LANES],
    pub(super) shared_addresses: Option<[u64; WARP_LANES]>,
    pub(super) atomic: Option<Cow<'a, str>>,
    pub(super) value_type: Option<Cow<'a, str>>,
}

impl<'a> Fields<'a> {
    /// The access, where it is one that the architecture has: the line's own,
    /// else that of `rules`.
    pub(super) fn check(&self, rules: &'a RuleSet) -> Result<WarpLine<'a>, LineError<'a>> {
        let error = |message: String| LineError { id: self.id, message };
        let rules = match &self.arch {
            Some(arch) => rules_of(arch, rules).ok_or_else(|| error(unknown_arch(arch, rules)))?,
            None => rules,
        };
        let width = u8::try_from(self.width).map_err(|_| {
            error(format!(
                "width {} is too large; give the bytes a lane accesses: 1, 2, 4, 8, 16 or 32",
                self.width
            ))
        })?;
        let op = Op::parse(&self.op, self.atomic.as_deref(), self.value_type.as_deref(), width)
            .map_err(|reason| error(reason.to_string()))?;
        let access = WarpAccess {
            op,
            width,
            mask: LaneMask(self.mask),
            addresses: self.addresses,
            shared_addresses: self.shared_addresses,
        };
        rules.check(&access).map_err(|reason| error(with_remedy(&reason)))?;
        Ok(WarpLine { id: self.id.unwrap_or("null"), access, rules })
    }
}

/// The shipped rule sets, read when a line first names another architecture
/// than that of the stream.
static SHIPPED: LazyLock<Vec<RuleSet>> = LazyLock::new(|| RuleSet::shipped().collect());

/// The rule set that holds for `arch`: `given`, which may be one of the user's
/// own, before the shipped ones.
fn rules_of<'a>(arch: &str, given: &'a RuleSet) -> Option<&'a RuleSet> {
    std::iter::once(given)
        .chain(SHIPPED.iter())
        .find(|rules| rules.archs().iter().any(|known| known == arch))
}

fn unknown_arch(arch: &str, given: &RuleSet) -> String {
    let mut known = RuleSet::known_archs();
    for own in given.archs() {
        if !known.contains(own) {
            known.push(own.clone());
        }
    }
    format!(
        "unknown arch \"{arch}\"; known: {}; rules of your own come with --arch FILE",
        known.join(", ")
    )
}

/// The reason, with what to do about it.
fn with_remedy(reason: &AccessError) -> String {
    let remedy = match reason {
        AccessError::Misaligned { .. } => "; align it, or clear the lane's bit in mask",
        AccessError::BeyondLocal { .. } => "; give the offset in the thread's local memory",
        AccessError::NoSharedAddresses => ": 32 offsets in shared memory, one for each lane",
        AccessError::Unsupported { .. } => "; choose another arch",
        _ => "",
    };
    format!("{reason}{remedy}")
}

/// The fields of a line of any shape.
pub(super) fn fields(line: &[u8]) -> Result<Fields<'_>, LineError<'_>> {
    if line.len() > super::MAX_LINE_BYTES {
        let id = read(&line[..super::MAX_LINE_BYTES]).0.id();
        let limit = super::MAX_LINE_BYTES >> 20;
        let message = format!("the line is longer than {limit} MiB; write one access on a line");
        return Err(LineError { id, message });
    }
    let (raw, outcome) = read(line);
    let id = raw.id();
    outcome.and_then(|()| raw.typed()).map_err(|message| LineError { id, message })
}

/// The fields as JSON text, as far as the line could be read.
#[derive(Default)]
struct RawFields<'a> {
    id: Option<&'a RawValue>,
    arch: Option<&'a RawValue>,
    op: Option<&'a RawValue>,
    width: Option<&'a RawValue>,
    mask: Option<&'a RawValue>,
    addresses: Option<&'a RawValue>,
    shared_addresses: Option<&'a RawValue>,
    atomic: Option<&'a RawValue>,
    value_type: Option<&'a RawValue>,
}

/// Reads what can be read of `line`.
fn read(line: &[u8]) -> (RawFields<'_>, Result<(), String>) {
    let mut raw = RawFields::default();
    let (text, whole) = match std::str::from_utf8(line) {
        Ok(text) => (text, Ok(())),
        Err(error) => {
            // The start may still have the id.
            let valid = error.valid_up_to();
            let text = std::str::from_utf8(&line[..valid]).unwrap_or_default();
            (text, Err(format!("byte {} is not UTF-8; save the file as UTF-8", valid + 1)))
        }
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let outcome = raw.deserialize_into(&mut json).and_then(|()| json.end());
    let outcome = whole.and(outcome.map_err(|error| {
        let remedy = if error.is_data() { "" } else { "; a line must be one JSON object" };
        format!("{}{remedy}", crate::jsonl::message(&error))
    }));
    (raw, outcome)
}

impl<'a> RawFields<'a> {
    fn id(&self) -> Option<&'a str> {
        self.id.map(RawValue::get)
    }

    fn deserialize_into<D: Deserializer<'a>>(&mut self, json: D) -> Result<(), D::Error> {
        self.deserialize(json)
    }

    /// Each field as its type; the message where it is not.
    fn typed(&self) -> Result<Fields<'a>, String> {
        // What may be left out may also be null.
        let given = |value: Option<&'a RawValue>| value.filter(|value| value.get() != "null");
        let op = required("op", self.op, "\"ld\"")?;
        let width = required("width", self.width, "4")?;
        let addresses = required("addresses", self.addresses, "[32 numbers]")?;
        let mask = match given(self.mask) {
            Some(mask) => whole_number(mask)
                .and_then(|mask| u32::try_from(mask).ok())
                .ok_or_else(|| format!("mask is {}; it must be a whole number from 0 to 4294967295, one bit for each lane", shown(mask)))?,
            None => u32::MAX,
        };
        Ok(Fields {
            id: self.id(),
            arch: given(self.arch).map(|arch| text("arch", arch)).transpose()?,
            op: text("op", op)?,
            width: whole_number(width).ok_or_else(|| {
                format!(
                    "width is {}; it must be a whole number: the bytes that a lane accesses",
                    shown(width)
                )
            })?,
            mask,
            addresses: lanes("addresses", addresses, mask)?,
            shared_addresses: given(self.shared_addresses)
                .map(|addresses| lanes("shared_addresses", addresses, mask))
                .transpose()?,
            atomic: given(self.atomic).map(|atomic| text("atomic", atomic)).transpose()?,
            value_type: given(self.value_type).map(|value| text("type", value)).transpose()?,
        })
    }
}

/// The keys of a line that are long enough for a slip to be told from another
/// word.
const KEYS: [&str; 7] =
    ["arch", "width", "mask", "addresses", "shared_addresses", "atomic", "type"];

/// Whether a key is meant to be one of ours, and is not.
pub(super) fn is_slip_of_key(text: &str) -> bool {
    KEYS.iter().any(|key| is_slip(text, key))
}

/// Whether `text` is `key` but for its case, or one letter too many, too few or
/// another, or two neighbours exchanged.
fn is_slip(text: &str, key: &str) -> bool {
    let (text, key) = (text.as_bytes(), key.as_bytes());
    let same = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b);
    let front = text.iter().zip(key).take_while(|&pair| same(pair)).count();
    let (text, key) = (&text[front..], &key[front..]);
    let back = text.iter().rev().zip(key.iter().rev()).take_while(|&pair| same(pair)).count();
    match (&text[..text.len() - back], &key[..key.len() - back]) {
        ([_] | [], [_] | []) => true,
        ([a, b], [c, d]) => same((a, d)) && same((b, c)),
        _ => false,
    }
}

fn required<'a>(
    name: &str,
    value: Option<&'a RawValue>,
    example: &str,
) -> Result<&'a RawValue, String> {
    value.ok_or_else(|| format!("{name} is missing; add \"{name}\":{example}"))
}

fn text<'a>(name: &str, value: &'a RawValue) -> Result<Cow<'a, str>, String> {
    // Borrowed where there is no escape in it.
    serde_json::from_str::<&str>(value.get())
        .map(Cow::Borrowed)
        .or_else(|_| serde_json::from_str::<String>(value.get()).map(Cow::Owned))
        .map_err(|_| format!("{name} is {}; it must be text", shown(value)))
}

/// The value, if it is written as a whole number from 0 to 2⁶⁴ − 1.
fn whole_number(value: &RawValue) -> Option<u64> {
    value.get().parse().ok()
}

/// One address for each lane; where a lane is off, anything.
fn lanes(name: &str, value: &RawValue, mask: u32) -> Result<[u64; WARP_LANES], String> {
    let entries: Vec<&RawValue> = serde_json::from_str(value.get())
        .map_err(|_| format!("{name} is {}; it must be an array of 32 addresses", shown(value)))?;
    if entries.len() != WARP_LANES {
        return Err(format!(
            "{name} has {} entries; it needs {WARP_LANES}, one for each lane, those that are off included",
            entries.len()
        ));
    }
    let mut addresses = [0; WARP_LANES];
    for (lane, (address, entry)) in addresses.iter_mut().zip(entries).enumerate() {
        match whole_number(entry) {
            Some(number) => *address = number,
            None if LaneMask(mask).contains(lane) => {
                return Err(format!(
                    "{name}[{lane}] is {}; an active lane's address must be a whole number from 0 to 18446744073709551615; clear bit {lane} of mask if the lane is off",
                    shown(entry)
                ));
            }
            None => {}
        }
    }
    Ok(addresses)
}

/// A value's text for a message, cut where it is long.
fn shown(value: &RawValue) -> Cow<'_, str> {
    const MOST: usize = 40;
    match value.get().char_indices().nth(MOST) {
        Some((end, _)) => Cow::Owned(format!("{}…", &value.get()[..end])),
        None => Cow::Borrowed(value.get()),
    }
}

impl<'de> DeserializeSeed<'de> for &mut RawFields<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut RawFields<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object such as {\"id\":1,\"op\":\"ld\",\"width\":4,\"mask\":4294967295,\"addresses\":[…]}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let (name, field) = match &*key {
                "id" => ("id", &mut self.id),
                "arch" => ("arch", &mut self.arch),
                "op" => ("op", &mut self.op),
                "width" => ("width", &mut self.width),
                "mask" => ("mask", &mut self.mask),
                "addresses" => ("addresses", &mut self.addresses),
                "shared_addresses" => ("shared_addresses", &mut self.shared_addresses),
                "atomic" => ("atomic", &mut self.atomic),
                "type" => ("type", &mut self.value_type),
                other => {
                    // Records have fields of their own beside these; but a
                    // slip in a name would count something else in silence.
                    if let Some(near) = KEYS.iter().find(|known| is_slip(other, known)) {
                        return Err(serde::de::Error::custom(format_args!(
                            "unknown key {other}; did you mean {near}?"
                        )));
                    }
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if field.is_some() {
                return Err(serde::de::Error::custom(format_args!(
                    "{name} is given twice; keep one of them"
                )));
            }
            *field = Some(map.next_value()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_from_other_words() {
        for slip in ["maks", "mas", "masks", "Mask", "nask"] {
            assert!(is_slip(slip, "mask"), "{slip}");
        }
        assert!(is_slip("adresses", "addresses") && is_slip("width_", "width"));
        for word in ["family", "counters", "line", "moved", "baseline", "wide", "tag", "m", ""] {
            assert!(!KEYS.iter().any(|key| is_slip(word, key)), "{word}");
        }
    }
}

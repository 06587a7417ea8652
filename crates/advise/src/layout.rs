//! Where the elements of a buffer would lie in another layout.
//!
//! A layout is a map from the address of a byte now to its address then. It is
//! made from the number of the element and the byte within it, so whatever an
//! access touches now it touches then: a layout cannot change what a kernel
//! reads or writes. An access whose bytes would no longer lie together has no
//! address in the layout, and the layout is refused for it.

use scenario::Buffer;
use scenario::types::{StructTable, Type};

/// Allocations start at multiples of this many bytes (CUDA C++ Programming
/// Guide, "Device Memory Accesses").
pub(crate) const ALLOCATION_BYTES: u64 = 256;

/// The elements of a buffer as they lie now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Address of the first byte.
    pub(crate) first: u64,
    pub(crate) element_bytes: u64,
    /// Elements of a row of the innermost axis.
    pub(crate) columns: u64,
    /// Bytes from one row to the next.
    pub(crate) row_bytes: u64,
    /// Bytes of all rows.
    pub(crate) bytes: u64,
}

impl Geometry {
    pub(crate) fn of(buffer: &Buffer, base: u64) -> Self {
        let columns = buffer.shape.last().copied().unwrap_or(1).max(1);
        Self {
            first: base.saturating_add(buffer.offset_bytes),
            element_bytes: buffer.element_bytes.max(1),
            columns,
            row_bytes: buffer
                .pitch
                .unwrap_or_else(|| columns.saturating_mul(buffer.element_bytes))
                .max(1),
            bytes: buffer.bytes,
        }
    }

    /// Bytes from the buffer's first element as if no row were padded; `None`
    /// outside of the elements.
    pub(crate) fn flat(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.first).filter(|&offset| offset < self.bytes)?;
        let (row, byte) = (offset / self.row_bytes, offset % self.row_bytes);
        let packed = self.columns.checked_mul(self.element_bytes)?;
        (byte < packed).then(|| row.checked_mul(packed)?.checked_add(byte)).flatten()
    }

    /// Elements of the buffer.
    pub(crate) fn elements(&self) -> u64 {
        (self.bytes / self.row_bytes).saturating_mul(self.columns)
    }

    /// Where a new allocation in its place would start.
    fn home(&self) -> u64 {
        self.first / ALLOCATION_BYTES * ALLOCATION_BYTES
    }
}

/// A part of a record that stays together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes from the start of the record.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Another layout of a buffer.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    /// Everything starts some bytes later.
    Shifted(u64),
    /// Rows of `row` bytes lie `pitch` bytes apart.
    Pitched { row: u64, pitch: u64 },
    /// Records of `record` bytes lie `stride` bytes apart.
    Padded { record: u64, stride: u64 },
    /// Each part of the records is an array of its own, of `records` elements.
    Separate { record: u64, parts: Vec<Part>, records: u64 },
    /// Blocks of as many records, in each of which every part is an array.
    Blocked { record: u64, parts: Vec<Part>, block: u64 },
    /// The records' pieces of `unit` bytes turned about: the first pieces of
    /// all `records`, then the second ones, and so on.
    Transposed { record: u64, unit: u64, records: u64 },
}

impl Layout {
    /// Where the byte at `address` goes, the first of an access of `width`
    /// bytes; `None` where the access would be torn apart, or where the buffer
    /// has no element there.
    pub(crate) fn map(&self, from: &Geometry, address: u64, width: u64) -> Option<u64> {
        let home = from.home();
        match self {
            Self::Shifted(bytes) => address.checked_add(*bytes),
            &Self::Pitched { row, pitch } => {
                let flat = from.flat(address)?;
                let (row_index, byte) = (flat / row, flat % row);
                // Vectors must not reach over a row's end, nor start askew.
                if byte + width > row {
                    return None;
                }
                home.checked_add(row_index.checked_mul(pitch)?)?.checked_add(byte)
            }
            &Self::Padded { record, stride } => {
                let flat = from.flat(address)?;
                let (index, byte) = (flat / record, flat % record);
                if byte + width > record {
                    return None;
                }
                home.checked_add(index.checked_mul(stride)?)?.checked_add(byte)
            }
            Self::Separate { record, parts, records } => {
                let flat = from.flat(address)?;
                let (index, byte) = (flat / record, flat % record);
                let mut start = home;
                for part in parts {
                    if (part.offset..part.offset + part.bytes).contains(&byte) {
                        let inside = byte - part.offset;
                        if inside + width > part.bytes {
                            return None;
                        }
                        return start
                            .checked_add(index.checked_mul(part.bytes)?)?
                            .checked_add(inside);
                    }
                    let bytes = records.checked_mul(part.bytes)?;
                    start = start.checked_add(bytes.checked_next_multiple_of(ALLOCATION_BYTES)?)?;
                }
                None
            }
            &Self::Transposed { record, unit, records } => {
                let flat = from.flat(address)?;
                let (index, byte) = (flat / record, flat % record);
                let (piece, inside) = (byte / unit, byte % unit);
                if inside + width > unit {
                    return None;
                }
                let pitch = records.checked_mul(unit)?;
                let pitch = pitch.checked_next_multiple_of(ALLOCATION_BYTES)?;
                home.checked_add(piece.checked_mul(pitch)?)?.checked_add(index * unit + inside)
            }
            Self::Blocked { record, parts, block } => {
                let flat = from.flat(address)?;
                let (index, byte) = (flat / record, flat % record);
                let block_bytes: u64 =
                    parts.iter().map(|part| part.bytes.saturating_mul(*block)).sum();
                let mut start = home.checked_add((index / block).checked_mul(block_bytes)?)?;
                for part in parts {
                    if (part.offset..part.offset + part.bytes).contains(&byte) {
                        let inside = byte - part.offset;
                        if inside + width > part.bytes {
                            return None;
                        }
                        return start.checked_add(index % block * part.bytes + inside);
                    }
                    start += part.bytes.saturating_mul(*block);
                }
                None
            }
        }
    }
}

/// The scalars of a type with their places: name from the whole (`.x`), bytes
/// from its start, size. More than `most` are not listed.
pub(crate) fn scalars(
    ty: &Type,
    structs: &StructTable,
    most: usize,
) -> Option<Vec<(String, Part)>> {
    let mut found = Vec::new();
    collect(ty, structs, String::new(), 0, most, &mut found).then_some(found)
}

fn collect(
    ty: &Type,
    structs: &StructTable,
    name: String,
    offset: u64,
    most: usize,
    found: &mut Vec<(String, Part)>,
) -> bool {
    match ty {
        Type::Struct(id) => structs.get(*id).fields.iter().all(|field| {
            let name = format!("{name}.{}", field.name);
            collect(&field.ty, structs, name, offset + field.offset, most, found)
        }),
        Type::Vector { element, count } => (0..u64::from(*count)).all(|at| {
            let component = ["x", "y", "z", "w"].get(at as usize).copied().unwrap_or("?");
            let part = Part { offset: offset + at * element.bytes(), bytes: element.bytes() };
            found.push((format!("{name}.{component}"), part));
            found.len() <= most
        }),
        Type::Array { element, len } => {
            let bytes = structs.size_of(element);
            *len <= most as u64
                && (0..*len).all(|at| {
                    let name = format!("{name}[{at}]");
                    collect(element, structs, name, offset + at * bytes, most, found)
                })
        }
        other => {
            found.push((name, Part { offset, bytes: structs.size_of(other) }));
            found.len() <= most
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn floats(columns: u64, rows: u64, pitch: u64) -> Geometry {
        Geometry {
            first: 0x7000_0000_0010,
            element_bytes: 4,
            columns,
            row_bytes: pitch,
            bytes: rows * pitch,
        }
    }

    #[test]
    fn padding_between_rows_is_no_element() {
        let image = floats(3, 4, 16);
        assert_eq!(image.flat(image.first + 16), Some(12));
        assert_eq!(image.flat(image.first + 12), None);
        assert_eq!(image.flat(image.first + 64), None);
        assert_eq!(image.flat(image.first - 1), None);
        assert_eq!(image.elements(), 12);
    }

    fn layout() -> impl Strategy<Value = Layout> {
        let parts = vec![
            Part { offset: 0, bytes: 4 },
            Part { offset: 4, bytes: 8 },
            Part { offset: 12, bytes: 4 },
        ];
        let separate = Layout::Separate { record: 16, parts: parts.clone(), records: 300 };
        prop_oneof![
            (0..32_u64).prop_map(|n| Layout::Shifted(n * 4)),
            (0..8_u64).prop_map(|n| Layout::Pitched { row: 60, pitch: 60 + 4 * n }),
            (0..8_u64).prop_map(|n| Layout::Padded { record: 16, stride: 16 + 4 * n }),
            Just(separate),
            (1..6_u64).prop_map(|n| Layout::Transposed { record: 8 * n, unit: 8, records: 600 }),
            (1..64_u64).prop_map(move |block| Layout::Blocked {
                record: 16,
                parts: parts.clone(),
                block
            }),
        ]
    }

    proptest! {
        /// A layout gives every byte a place of its own, so that whoever
        /// touches a byte now touches the same byte then; bytes of one access
        /// stay together.
        #[test]
        fn a_layout_moves_bytes_and_loses_none(layout in layout(), columns in 1..40_u64) {
            let from = floats(columns, 30, columns * 4 + 8);
            let mut taken = std::collections::HashMap::new();
            for address in from.first..from.first + from.bytes {
                let Some(there) = layout.map(&from, address, 1) else {
                    prop_assert!(from.flat(address).is_none());
                    continue;
                };
                prop_assert_eq!(taken.insert(there, address), None);
                for width in [2, 4, 8] {
                    if let Some(wide) = layout.map(&from, address, width) {
                        prop_assert_eq!(wide, there);
                        for byte in 1..width {
                            if let Some(next) = layout.map(&from, address + byte, 1)
                                && from.flat(address + byte) == from.flat(address).map(|f| f + byte)
                            {
                                prop_assert_eq!(next, there + byte);
                            }
                        }
                    }
                }
            }
        }
    }
}

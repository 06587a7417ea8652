//! Transactions of several sizes, before the sectored cache: CC 1.x–2.x.
//!
//! Source: CUDA C Programming Guide 4.2 and 5.0, F.3.2.1 (CC 1.0/1.1), F.3.2.2
//! (CC 1.2/1.3) and F.4.2 (CC 2.x).

use super::Lanes;
use crate::access::{LaneMask, Op, WARP_LANES};
use crate::counts::{Transaction, Transactions};
use crate::rules::TransactionRule;

impl TransactionRule {
    /// The transactions of one request, each with its lanes, in order.
    pub(crate) fn issue(
        &self,
        op: &Op,
        lanes: Lanes<'_>,
        request_lanes: u32,
        mut each: impl FnMut(Transaction, LaneMask),
    ) {
        if lanes.mask.is_empty() {
            return;
        }
        match self {
            Self::InOrder { segments, fallback_bytes } => {
                let segment = segments
                    .iter()
                    .find(|segment| u32::from(segment.width) == lanes.width)
                    .filter(|segment| in_order(lanes, request_lanes, segment.bytes));
                let Some(segment) = segment else {
                    for (lane, address) in lanes.iter() {
                        each(block(address, *fallback_bytes), LaneMask(1 << lane));
                    }
                    return;
                };
                // All segments are transferred, also one that no active lane
                // uses.
                let Some(start) = start_of_order(lanes, request_lanes) else { return };
                for index in 0..segment.count {
                    let address = start.wrapping_add(u64::from(index * segment.bytes));
                    let lanes = within(lanes, address, segment.bytes);
                    each(Transaction { address, bytes: segment.bytes }, lanes);
                }
            }
            Self::Shrinking { segments, smallest_bytes } => {
                let Some(segment) =
                    segments.iter().find(|segment| u32::from(segment.width) == lanes.width)
                else {
                    return;
                };
                let mut rest = lanes;
                while let Some((_, address)) = rest.iter().next() {
                    let mut transaction = block(address, segment.bytes);
                    let served = within(rest, transaction.address, transaction.bytes);
                    while transaction.bytes > *smallest_bytes {
                        let half = transaction.bytes / 2;
                        let upper = transaction.address.wrapping_add(u64::from(half));
                        if within(rest, transaction.address, half) == served {
                            transaction.bytes = half;
                        } else if within(rest, upper, half) == served {
                            transaction = Transaction { address: upper, bytes: half };
                        } else {
                            break;
                        }
                    }
                    each(transaction, served);
                    rest.mask.0 &= !served.0;
                }
            }
            Self::Blocks { bytes, except } => {
                let special =
                    except.iter().find(|entry| entry.ops.iter().any(|name| name == op.name()));
                let bytes = special.map_or(*bytes, |entry| entry.bytes);
                let mut rest = lanes;
                while let Some((_, address)) = rest.iter().next() {
                    let transaction = block(address, bytes);
                    let served = within(rest, transaction.address, bytes);
                    each(transaction, served);
                    rest.mask.0 &= !served.0;
                }
            }
        }
    }

    /// The transactions of all requests.
    pub(crate) fn all(
        &self,
        op: &Op,
        lanes: Lanes<'_>,
        requests: &[LaneMask],
        request_lanes: u32,
    ) -> Transactions {
        let mut transactions = Transactions::default();
        for &request in requests {
            self.issue(op, lanes.only(request), request_lanes, |transaction, _| {
                transactions.push(transaction);
            });
        }
        transactions
    }
}

/// The aligned block of `bytes` around an address.
fn block(address: u64, bytes: u32) -> Transaction {
    Transaction { address: address & !(u64::from(bytes) - 1), bytes }
}

/// The lanes that start in the block.
fn within(lanes: Lanes<'_>, address: u64, bytes: u32) -> LaneMask {
    let mut inside = LaneMask::EMPTY;
    for (lane, at) in lanes.iter() {
        if at.wrapping_sub(address) < u64::from(bytes) {
            inside.0 |= 1 << lane;
        }
    }
    inside
}

/// Where lane 0 of the request would be if all lanes were in order, by the
/// first active lane.
fn start_of_order(lanes: Lanes<'_>, request_lanes: u32) -> Option<u64> {
    let (lane, address) = lanes.iter().next()?;
    let place = (lane % WARP_LANES) as u32 % request_lanes;
    Some(address.wrapping_sub(u64::from(place * lanes.width)))
}

/// Whether the k-th lane of the request accesses the k-th word from a multiple
/// of `bytes`.
fn in_order(lanes: Lanes<'_>, request_lanes: u32, bytes: u32) -> bool {
    let Some(start) = start_of_order(lanes, request_lanes) else { return true };
    start & (u64::from(bytes) - 1) == 0
        && lanes.iter().all(|(lane, address)| {
            let place = lane as u32 % request_lanes;
            address == start.wrapping_add(u64::from(place * lanes.width))
        })
}

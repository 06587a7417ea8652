//! Many warps at once: arrays of addresses in, arrays of counts out.
//!
//! The same counts as [`RuleSet::count`], row by row, on all cores. Rows are
//! warps, columns are lanes.
//!
//! ```
//! use coalescope_simulator::{Field, Op, RuleSet};
//! use ndarray::{Array1, Array2};
//!
//! // Row i: 32 floats with a stride of i + 1.
//! let addresses = Array2::from_shape_fn((8, 32), |(row, lane)| ((row + 1) * lane * 4) as u64);
//! let masks = Array1::from_elem(8, u32::MAX);
//! let rules = RuleSet::for_arch("9.0").unwrap();
//! let counts = rules.count_batch(Op::LOAD, 4, masks.view(), addresses.view())?;
//!
//! let sectors = counts.column(Field::Sectors).unwrap();
//! assert_eq!(sectors.to_vec(), [4, 8, 12, 16, 20, 24, 28, 32]);
//! assert_eq!(counts.totals().sectors, Some(144));
//! # Ok::<(), coalescope_simulator::BatchError>(())
//! ```

use alloc::vec;
use core::fmt;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};
use rayon::prelude::*;

use crate::access::{LaneMask, Op, WARP_LANES, WarpAccess};
use crate::check::AccessError;
use crate::rules::RuleSet;
use crate::totals::{Field, Totals};

const FIELDS: usize = Field::ALL.len();

/// Rows that a core takes at a time: enough work to outweigh handing it over.
const ROWS_A_TASK: usize = 1024;

/// The counts of n warps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchCounts {
    /// n × 12: the columns are [`Field::ALL`], in that order; 0 where
    /// `defined` is false.
    pub values: Array2<u32>,
    /// n × 12: whether the rule set defines the value of the same place.
    pub defined: Array2<bool>,
    /// Length n: [`Counts::exact`](crate::Counts::exact).
    pub exact: Array1<bool>,
}

/// Why a batch is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The addresses don't have one column for each lane.
    Columns {
        /// Columns given.
        columns: usize,
    },
    /// There isn't one mask for each row of addresses.
    Masks {
        /// Masks given.
        masks: usize,
        /// Rows of addresses.
        rows: usize,
    },
    /// A row is no access that the architecture executes.
    Row {
        /// The first such row.
        row: usize,
        /// What is wrong with it.
        error: AccessError,
    },
    /// The result does not fit the address space.
    TooLarge,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Columns { columns } => {
                write!(
                    f,
                    "addresses have {columns} columns, not one for each of {WARP_LANES} lanes"
                )
            }
            Self::Masks { masks, rows } => {
                write!(f, "{masks} masks for {rows} rows of addresses")
            }
            Self::Row { row, error } => write!(f, "row {row}: {error}"),
            Self::TooLarge => {
                f.write_str("the counts of so many rows do not fit the address space")
            }
        }
    }
}

impl core::error::Error for BatchError {}

impl RuleSet {
    /// Counts n warps that execute the same operation, `width` bytes a lane.
    ///
    /// `masks` has length n, `addresses` shape n × 32, in bytes; addresses of
    /// inactive lanes mean nothing. Any memory layout of the arrays will do;
    /// rows in one piece are fastest.
    pub fn count_batch(
        &self,
        op: Op,
        width: u8,
        masks: ArrayView1<'_, u32>,
        addresses: ArrayView2<'_, u64>,
    ) -> Result<BatchCounts, BatchError> {
        let (rows, columns) = addresses.dim();
        if columns != WARP_LANES {
            return Err(BatchError::Columns { columns });
        }
        if masks.len() != rows {
            return Err(BatchError::Masks { masks: masks.len(), rows });
        }
        let cells = rows.checked_mul(FIELDS).ok_or(BatchError::TooLarge)?;
        let mut values = vec![0u32; cells];
        let mut defined = vec![false; cells];
        let mut exact = vec![true; rows];
        let refused = values
            .par_chunks_mut(ROWS_A_TASK * FIELDS)
            .zip(defined.par_chunks_mut(ROWS_A_TASK * FIELDS))
            .zip(exact.par_chunks_mut(ROWS_A_TASK))
            .enumerate()
            .filter_map(|(task, ((values, defined), exact))| {
                let rows = values.chunks_exact_mut(FIELDS).zip(defined.chunks_exact_mut(FIELDS));
                let first = task * ROWS_A_TASK;
                for (row, ((values, defined), exact)) in (first..).zip(rows.zip(exact)) {
                    let mut access = WarpAccess::new(op, width, [0; WARP_LANES]);
                    access.mask = LaneMask(masks[row]);
                    for (lane, address) in access.addresses.iter_mut().zip(addresses.row(row)) {
                        *lane = *address;
                    }
                    if let Err(error) = self.check(&access) {
                        return Some((row, error));
                    }
                    let counts = self.count(&access);
                    *exact = counts.exact;
                    for ((field, value), defined) in Field::ALL.iter().zip(values).zip(defined) {
                        let count = field.of(&counts);
                        *value = count.unwrap_or(0);
                        *defined = count.is_some();
                    }
                }
                None
            })
            .min_by_key(|&(row, _)| row);
        if let Some((row, error)) = refused {
            return Err(BatchError::Row { row, error });
        }
        let shape = (rows, FIELDS);
        Ok(BatchCounts {
            values: Array2::from_shape_vec(shape, values).map_err(|_| BatchError::TooLarge)?,
            defined: Array2::from_shape_vec(shape, defined).map_err(|_| BatchError::TooLarge)?,
            exact: Array1::from_vec(exact),
        })
    }
}

impl BatchCounts {
    /// Number of warps.
    pub fn len(&self) -> usize {
        self.exact.len()
    }

    /// Whether there is no warp.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    /// `field` of warp `row`; `None` where the rule set does not define it, or
    /// past the last row.
    pub fn get(&self, row: usize, field: Field) -> Option<u32> {
        let cell = (row, column_of(field));
        (*self.defined.get(cell)?).then(|| self.values.get(cell).copied())?
    }

    /// `field` of all warps, length n; `None` unless the rule set defines it
    /// for each of them.
    pub fn column(&self, field: Field) -> Option<ArrayView1<'_, u32>> {
        let column = column_of(field);
        let defined = self.defined.column(column).iter().all(|defined| *defined);
        defined.then(|| self.values.column(column))
    }

    /// The sums over all warps.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            instructions: self.len() as u128,
            exact: self.exact.iter().all(|exact| *exact),
            ..Totals::default()
        };
        if !self.is_empty() {
            for field in Field::ALL {
                let sum = |column: ArrayView1<'_, u32>| column.iter().map(|&n| u128::from(n)).sum();
                totals.set(field, self.column(field).map(sum));
            }
        }
        totals
    }
}

/// The column of [`BatchCounts`] that holds `field`.
const fn column_of(field: Field) -> usize {
    field as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;
    use ndarray::ShapeBuilder;
    use proptest::prelude::*;

    #[test]
    fn columns_are_the_fields_in_order() {
        for (index, field) in Field::ALL.into_iter().enumerate() {
            assert_eq!(column_of(field), index);
        }
    }

    #[test]
    fn shapes_are_checked() {
        let rules = RuleSet::for_arch("9.0").unwrap();
        let count = |rows, columns, masks| {
            let addresses = Array2::<u64>::zeros((rows, columns));
            let masks = Array1::from_elem(masks, u32::MAX);
            rules
                .count_batch(Op::LOAD, 4, masks.view(), addresses.view())
                .map(|counts| counts.len())
        };
        assert_eq!(count(3, 32, 3), Ok(3));
        assert_eq!(count(0, 32, 0), Ok(0));
        assert_eq!(count(3, 31, 3), Err(BatchError::Columns { columns: 31 }));
        assert_eq!(count(3, 32, 2), Err(BatchError::Masks { masks: 2, rows: 3 }));
    }

    #[test]
    fn the_first_bad_row_is_named() {
        let rules = RuleSet::for_arch("9.0").unwrap();
        let mut addresses = Array2::<u64>::zeros((5000, 32));
        addresses[(4999, 0)] = 1;
        addresses[(3000, 7)] = 2;
        let masks = Array1::from_elem(5000, u32::MAX);
        let error = rules.count_batch(Op::LOAD, 4, masks.view(), addresses.view()).unwrap_err();
        assert!(error.to_string().starts_with("row 3000: lane 7: address 2"), "{error}");
        let width = rules.count_batch(Op::LOAD, 3, masks.view(), addresses.view()).unwrap_err();
        assert!(width.to_string().starts_with("row 0: width 3"), "{width}");
    }

    #[test]
    fn the_empty_batch_claims_nothing() {
        let rules = RuleSet::for_arch("9.0").unwrap();
        let counts = rules
            .count_batch(Op::LOAD, 4, Array1::zeros(0).view(), Array2::zeros((0, 32)).view())
            .unwrap();
        assert!(counts.is_empty());
        assert_eq!(counts.totals(), Totals::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn equal_to_the_scalar_function(
            rows in proptest::collection::vec(
                (any::<u32>(), proptest::array::uniform32(0u64..1 << 12)),
                1..40,
            ),
            repeat in 1usize..80,
            op in prop_oneof![Just(Op::LOAD), Just(Op::STORE), Just(Op::SHARED_LOAD)],
            arch in 0usize..64,
        ) {
            let all: Vec<RuleSet> = RuleSet::shipped().collect();
            let rules = &all[arch % all.len()];
            let n = rows.len() * repeat;
            let row = |index: usize| &rows[index % rows.len()];
            let masks = Array1::from_shape_fn(n, |index| row(index).0);
            let element = |(index, lane): (usize, usize)| row(index).1[lane] * 4;
            let by_row = Array2::from_shape_fn((n, 32), element);
            let by_lane = Array2::from_shape_fn((n, 32).f(), element);
            let counts = rules.count_batch(op, 4, masks.view(), by_row.view()).unwrap();
            prop_assert_eq!(
                &rules.count_batch(op, 4, masks.view(), by_lane.view()).unwrap(),
                &counts
            );
            let mut totals = Totals::default();
            for index in 0..n {
                let mut access = WarpAccess::new(op, 4, row(index).1.map(|element| element * 4));
                access.mask = LaneMask(row(index).0);
                let expected = rules.count(&access);
                totals.add(&expected);
                for field in Field::ALL {
                    prop_assert_eq!(counts.get(index, field), field.of(&expected));
                }
                prop_assert_eq!(counts.exact[index], expected.exact);
            }
            prop_assert_eq!(counts.totals(), totals);
            prop_assert_eq!(counts.get(n, Field::Sectors), None);
        }
    }
}

//! Rows that queries of coupons must return, known from the documents that were written.

use crate::drivers::QueryRow;
use crate::generators::{CouponSet, LOW_COUNTS, write_coupon_key};
use serde_json::Value;

/// Rows of the index of a set of coupons after a round of writes.
pub struct ExpectedRows<'a> {
    coupons: &'a CouponSet,
    round: u32,
    /// Counts and numbers of all documents, by count, then by key.
    sorted: Vec<(u32, u32)>,
}

impl<'a> ExpectedRows<'a> {
    /// Returns the rows after a round.
    pub fn new(coupons: &'a CouponSet, round: u32) -> ExpectedRows<'a> {
        ExpectedRows { coupons, round, sorted: coupons.sorted(round) }
    }

    /// Returns the rows of the published query: counts and numbers below [`LOW_COUNTS`].
    pub fn low(&self) -> &[(u32, u32)] {
        &self.sorted[..self.sorted.partition_point(|(count, _)| *count < LOW_COUNTS)]
    }

    /// Returns the count at a position of the index, and the first `rows` rows that have at least
    /// this count. Positions begin with 0; too high ones count as the last that has so many rows.
    pub fn from_position(&self, position: usize, rows: usize) -> (u32, &[(u32, u32)]) {
        let last = self.sorted.len().saturating_sub(rows);
        let count = self.sorted.get(position.min(last)).map_or(0, |(count, _)| *count);
        let first = self.sorted.partition_point(|(other, _)| *other < count);
        let end = (first + rows).min(self.sorted.len());
        (count, &self.sorted[first..end])
    }

    /// Returns the number of positions that have `rows` rows; at least 1.
    pub fn positions(&self, rows: usize) -> u64 {
        (self.sorted.len().saturating_sub(rows) + 1) as u64
    }

    /// Compares rows with those expected, also their documents if they have any. Errors name the
    /// first difference.
    pub fn check(&self, rows: &[QueryRow<'_>], expected: &[(u32, u32)]) -> Result<(), String> {
        if rows.len() != expected.len() {
            return Err(format!("{} rows instead of {}", rows.len(), expected.len()));
        }
        let (mut key, mut document) = (Vec::new(), Vec::new());
        for (at, (row, (_, number))) in rows.iter().zip(expected).enumerate() {
            key.clear();
            write_coupon_key(*number, &mut key);
            if *row.key != *key {
                let found = String::from_utf8_lossy(&row.key);
                let key = String::from_utf8_lossy(&key);
                return Err(format!("row {at} is {found} instead of {key}"));
            }
            if let Some(found) = &row.document {
                document.clear();
                self.coupons.write(*number, self.round, &mut document);
                if !is_equal_json(found, &document) {
                    let found = String::from_utf8_lossy(found);
                    let document = String::from_utf8_lossy(&document);
                    return Err(format!("row {at} has {found} instead of {document}"));
                }
            }
        }
        Ok(())
    }
}

/// Compares two documents, whatever the order of their members.
fn is_equal_json(found: &[u8], expected: &[u8]) -> bool {
    let parse = |document| serde_json::from_slice::<Value>(document).ok();
    found == expected || parse(found).is_some_and(|found| Some(found) == parse(expected))
}

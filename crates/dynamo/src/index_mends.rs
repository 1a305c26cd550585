//! Counts of the entries that the scrub of a node has mended.

/// Numbers of entries that were mended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexMends {
    /// Entries that were added, or got the value that their row asks for.
    pub missing: u64,
    /// Entries without a row that asks for them, which were removed.
    pub stale: u64,
}

impl IndexMends {
    /// Adds other numbers to these.
    pub fn add(&mut self, other: IndexMends) {
        self.missing += other.missing;
        self.stale += other.stale;
    }
}

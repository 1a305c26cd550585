//! Feature level: one number for everything that the nodes of a cluster must understand alike, that
//! is, rows of the directory, kinds of log records, messages between nodes, and files of a data
//! directory.
//!
//! | level | program | what it adds |
//! |---|---|---|
//! | 1 | builds before 0.1.0 | |
//! | 2 | 0.1.0 | counted and audited buckets; packed values; users, roles, quotas; levels |
//! | | | uses of join tokens; sessions of users, and quotas of them; declared indexes |
//! | | | feeds of changes; versions of absent keys; tags of consistent buckets |
//!
//! Every program knows a range of levels. The row `n/level` of the directory holds the level that
//! is in force; a node writes and sends nothing above it. So programs that know the level in force
//! may be exchanged for each other, in both directions. The level in force only rises.
//!
//! A new kind of row, record, message or file belongs to a level: raise [`FeatureLevel::HIGHEST`]
//! in the first release that has it, add a line to the table, and use it from that level on
//! (`docs/decisions/0032-feature-levels.md`).

use std::fmt;

/// Level of the features that a cluster may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureLevel(pub u16);

impl FeatureLevel {
    /// Lowest level, and that of a cluster without a row `n/level`.
    pub const FIRST: FeatureLevel = FeatureLevel(1);
    /// Level of counted buckets and packed values.
    pub const WITH_COUNTS: FeatureLevel = FeatureLevel(2);
    /// Level of buckets whose operations are recorded.
    pub const WITH_BUCKET_AUDIT: FeatureLevel = FeatureLevel(2);
    /// Level of users, roles and quotas, and of requests between nodes that name their principal.
    pub const WITH_USERS: FeatureLevel = FeatureLevel(2);
    /// Level of join tokens with a number of uses.
    pub const WITH_TOKEN_USES: FeatureLevel = FeatureLevel(2);
    /// Level of declared indexes, and of queries of indexes between nodes.
    pub const WITH_INDEXES: FeatureLevel = FeatureLevel(2);
    /// Level of feeds of changes.
    pub const WITH_FEEDS: FeatureLevel = FeatureLevel(2);
    /// Level of reads of key versions, and of assertions about absent keys, between nodes.
    pub const WITH_KEY_VERSIONS: FeatureLevel = FeatureLevel(2);
    /// Level of rows of consistent buckets with tags.
    pub const WITH_TAGS: FeatureLevel = FeatureLevel(2);
    /// Highest level that this program knows; that of a new cluster.
    pub const HIGHEST: FeatureLevel = FeatureLevel::WITH_COUNTS;

    /// Returns the version of the first program that knows this level. `None`: this program does
    /// not know the level, or no release ends with it.
    pub fn program(self) -> Option<&'static str> {
        match self.0 {
            2 => Some("0.1.0"),
            _ => None,
        }
    }

    /// Returns the program to run for this level, in words.
    pub fn program_text(self) -> String {
        match self.program() {
            Some(version) => format!("credenza {version} or later"),
            None => "a later version of credenza".into(),
        }
    }
}

impl Default for FeatureLevel {
    fn default() -> FeatureLevel {
        FeatureLevel::FIRST
    }
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_above_the_first_names_its_program() {
        for number in FeatureLevel::FIRST.0 + 1..=FeatureLevel::HIGHEST.0 {
            assert!(FeatureLevel(number).program().is_some(), "{number}");
        }
        assert_eq!(FeatureLevel(FeatureLevel::HIGHEST.0 + 1).program(), None);
        assert_eq!(FeatureLevel(2).program_text(), "credenza 0.1.0 or later");
        assert_eq!(FeatureLevel(9).program_text(), "a later version of credenza");
    }
}

//! Incarnations of a node, numbered.

use std::fmt;

/// Number of a node's incarnation: kept in its data directory and raised, durably, at every start,
/// before the first message to a peer. A node whose number is lower than the highest that others
/// have seen runs on an old copy of its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

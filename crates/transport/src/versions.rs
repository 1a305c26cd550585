//! Versions of the peers' protocol.

/// Versions of the protocol that a node speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) lowest: u16,
    pub(super) highest: u16,
}

/// The versions of this program.
pub(super) const VERSIONS: Versions = Versions { lowest: 1, highest: 1 };

impl Versions {
    /// The highest that both speak.
    pub(super) fn common(self, other: Versions) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

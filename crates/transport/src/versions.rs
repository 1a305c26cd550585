//! Versions of the peer protocol.

/// Range of protocol versions that a node speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) lowest: u16,
    pub(super) highest: u16,
}

/// Range of this program.
pub(super) const VERSIONS: Versions = Versions { lowest: 1, highest: 1 };

impl Versions {
    /// Returns the highest version that both speak. `None`: they have none in common.
    pub(super) fn common(self, other: Versions) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

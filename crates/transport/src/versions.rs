//! Versions of the peer protocol.

/// Range of protocol versions that a node speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) lowest: u16,
    pub(super) highest: u16,
}

/// Lowest version that this program speaks.
pub const VERSION_LOWEST: u16 = 1;
/// Version whose nodes keep counts of buckets.
pub const VERSION_WITH_COUNTS: u16 = 2;
/// Version whose nodes say on whose behalf they forward a request.
pub const VERSION_WITH_PRINCIPALS: u16 = 3;

/// Range of this program.
pub(super) const VERSIONS: Versions =
    Versions { lowest: VERSION_LOWEST, highest: VERSION_WITH_PRINCIPALS };

impl Versions {
    /// Returns the highest version that both speak. `None`: they have none in common.
    pub(super) fn common(self, other: Versions) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

//! Versions of the peer protocol. A version is a feature level: a node that knows a level speaks
//! the version of that number, and the level in force is the lowest version that is spoken.

use base::FeatureLevel;

/// Range of protocol versions that a node speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) lowest: u16,
    pub(super) highest: u16,
}

/// Range of this program.
pub(super) const VERSIONS: Versions =
    Versions { lowest: FeatureLevel::FIRST.0, highest: FeatureLevel::HIGHEST.0 };

impl Versions {
    /// Returns the highest version that both speak. `None`: they have none in common.
    pub(super) fn common(self, other: Versions) -> Option<u16> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

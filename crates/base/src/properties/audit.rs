//! The property `audit`: operations on a bucket's keys that the audit log records.

/// Operations on a bucket's keys that the audit log records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BucketAudit {
    /// None, unless they are denied.
    #[default]
    Off,
    /// Operations that need `write`.
    Writes,
    /// All.
    All,
}

impl BucketAudit {
    /// All of them, by their numbers on the wire.
    pub const ALL: [BucketAudit; 3] = [BucketAudit::Off, BucketAudit::Writes, BucketAudit::All];
    /// Names of all of them.
    pub const NAMES: [&str; 3] = ["off", "writes", "all"];

    /// Returns the name at every front-end.
    pub fn name(self) -> &'static str {
        BucketAudit::NAMES[self as usize]
    }

    pub(super) fn parse(text: &str) -> Option<BucketAudit> {
        BucketAudit::ALL.into_iter().find(|audit| audit.name() == text)
    }
}

//! Records of the audit log: who did what, from where, on what, with which outcome.

use base::Reason;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Most keys of which a record has the digest.
pub const KEYS_MAX: usize = 16;

/// Record: who did what, from where, on what, with which outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRecord {
    /// Name of a user. A word in parentheses, which no user's name has, stands for others:
    /// `(local)`, `(anonymous)`, `(unknown)`, `(join token)`, `(node)`, `(others)`.
    pub who: String,
    /// Label of the API token with which the user logged in.
    pub token: Option<String>,
    /// Protocol of the caller. Empty: unknown.
    pub protocol: &'static str,
    /// Address of the caller.
    pub address: Option<IpAddr>,
    /// Name of the operation.
    pub operation: &'static str,
    /// Scope of the operation, as grants have it. Empty: none.
    pub scope: String,
    /// User, role, member, group or properties that the operation is about.
    pub target: Option<String>,
    /// Digests of the keys, at most [`KEYS_MAX`].
    pub keys: Vec<String>,
    /// Number of further keys; one that is named several times may be counted several times.
    pub more_keys: u64,
    /// Names of a sequence's steps, with their numbers.
    pub steps: BTreeMap<&'static str, u64>,
    /// Outcome of the operation.
    pub outcome: AuditOutcome,
    /// Number of operations that the record stands for, if it is a summary.
    pub count: u64,
}

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditOutcome {
    /// The operation is allowed, and follows. Without a later record of it, what became of it is
    /// not known.
    Allowed,
    /// The operation is done.
    #[default]
    Done,
    /// The operation is not allowed, and was not done.
    Denied(Reason),
    /// The operation was allowed, and failed.
    Failed(Reason),
}

impl AuditOutcome {
    /// Returns the name, and the reason of a refusal or failure.
    pub fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            AuditOutcome::Allowed => ("allowed", None),
            AuditOutcome::Done => ("done", None),
            AuditOutcome::Denied(reason) => ("denied", Some(reason.name())),
            AuditOutcome::Failed(reason) => ("failed", Some(reason.name())),
        }
    }
}

/// Record with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Time in milliseconds since 1970.
    pub at_ms: u64,
    /// The record.
    pub record: AuditRecord,
}

//! Error of all crates above the store, classified by what the *caller* can do about it.
//!
//! `Kind` is the caller's remedy, `Reason` one of the known situations (front-ends match on it to
//! produce their protocol's error), `detail` a sentence that names the remedy.

use crate::codec::Malformed;
use std::fmt;

/// Kind of an error: what the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Fix the request.
    Invalid,
    /// Bring other credentials.
    Denied,
    /// Read again, then decide again.
    Conflict,
    /// Wait or try another node, then retry: nothing happened.
    Unavailable,
    /// Read before retrying: the request may have been carried out.
    Unknown,
    /// Call the operator.
    Corrupt,
}

impl Kind {
    /// Returns the kind as one lower-case word; it never changes once released.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::Denied => "denied",
            Kind::Conflict => "conflict",
            Kind::Unavailable => "unavailable",
            Kind::Unknown => "unknown",
            Kind::Corrupt => "corrupt",
        }
    }

    /// Returns the exit code of a program that ends with an error of this kind. 1 is none of them:
    /// it means that nothing failed and the answer is no.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Invalid => 2,
            Kind::Denied => 3,
            Kind::Conflict => 4,
            Kind::Unavailable => 5,
            Kind::Unknown => 6,
            Kind::Corrupt => 7,
        }
    }
}

/// Situation of an error, from a closed list. A reason has exactly one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    // Invalid
    /// Bytes or names that are not valid here.
    Malformed,
    /// Larger than a named limit; the detail names it.
    TooLarge,
    /// A value that should be a number is not one, or the sum overflows.
    NotANumber,
    /// No such bucket.
    NoSuchBucket,
    /// No such bucket type.
    NoSuchType,
    /// No such index in the bucket, or it is being dropped.
    NoSuchIndex,
    /// The bucket has no feed.
    FeedOff,
    /// A token of a feed that no page of the bucket's feed returned.
    MalformedToken,
    /// Known, but not supported by this node, bucket or front-end.
    NotSupported,
    /// The session has expired or was never opened in this bucket; nothing was applied by this
    /// request.
    SessionExpired,
    /// A request number older than the session's window: its outcome is not kept any more.
    RequestExpired,
    /// Another update was applied under this request number of the session; this one was not.
    RetryMismatch,
    // Denied
    /// Not allowed to this caller.
    Forbidden,
    /// The caller has not logged in, or its login has ended.
    Unauthenticated,
    // Conflict
    /// The key an update needs is not there; the detail is the key.
    NotFound,
    /// An assertion did not hold; the detail is the key, or describes the row found.
    AssertionFailed,
    /// The bucket, type or index exists already.
    AlreadyExists,
    /// A row or a set of properties changed meanwhile.
    Changed,
    /// A key of an available bucket has several values, and one was requested.
    Siblings,
    /// A key of an available bucket would get more siblings than its bucket allows.
    TooManySiblings,
    /// The index could not be built; the detail says why.
    IndexFailed,
    // Unavailable
    /// Too many requests are waiting; nothing was queued.
    Overloaded,
    /// The disk is (nearly) full: writes are refused, reads and deletes go on.
    OutOfSpace,
    /// Too many connections, sessions or open cursors; the detail names the limit.
    TooMany,
    /// The node is not master of the group; the detail is the master's name, or `None`.
    NotMaster,
    /// No majority answered, or the single node that was queried did not.
    NoQuorum,
    /// The local replica has not applied the requested index yet, or has no such bucket yet.
    StaleReplica,
    /// The node is starting, or its cluster is being bootstrapped.
    Starting,
    /// The node is stopping.
    ShuttingDown,
    /// The node belongs to no cluster yet: it waits to be added, or for others to bootstrap one.
    NotBootstrapped,
    /// The bucket moved to another group; the detail names it.
    Moved,
    /// The ring, the bucket or the directory changed at every attempt.
    MetadataChanged,
    /// Fewer replicas answered than the read requires; the detail begins with a
    /// [`crate::Shortfall`].
    ReadQuorumUnmet,
    /// A thread or a listener can't be started; the detail holds the system's error.
    StartFailed,
    /// Another process holds the data directory or the port.
    InUse,
    /// A quota of the user is used up on this node, or of sessions in a group; the detail names it.
    Quota,
    /// The index is being built; the detail begins with a [`crate::index::BuildProgress`].
    IndexBuilding,
    /// The feed is being built; the detail begins with a [`crate::index::BuildProgress`].
    FeedBuilding,
    // Unknown
    /// Mastership was lost between proposing and deciding.
    NoLongerMaster,
    /// The deadline passed between proposing and deciding.
    DeadlinePassed,
    /// Fewer replicas stored a write than it requires: some have it, and it may spread. The detail
    /// begins with a [`crate::Shortfall`].
    WriteQuorumUnmet,
    /// No readable answer arrived: the connection broke, or the answer can't be read or encoded.
    InDoubt,
    // Corrupt
    /// A checksum does not hold; the detail names file and offset.
    Corrupt,
    /// The log or store failed; the node is stopping.
    StoreFailed,
}

impl Reason {
    /// Returns the kind of this reason: what the caller can do about it.
    pub fn kind(self) -> Kind {
        use Reason::*;
        match self {
            Malformed | TooLarge | NotANumber | NoSuchBucket | NoSuchType | NoSuchIndex
            | NotSupported | SessionExpired | RequestExpired | RetryMismatch | FeedOff
            | MalformedToken => Kind::Invalid,
            Forbidden | Unauthenticated => Kind::Denied,
            NotFound | AssertionFailed | AlreadyExists | Changed | Siblings | TooManySiblings
            | IndexFailed => Kind::Conflict,
            Overloaded | OutOfSpace | TooMany | NotMaster | NoQuorum | StaleReplica | Starting
            | ShuttingDown | NotBootstrapped | Moved | MetadataChanged | ReadQuorumUnmet
            | StartFailed | InUse | Quota | IndexBuilding | FeedBuilding => Kind::Unavailable,
            NoLongerMaster | DeadlinePassed | WriteQuorumUnmet | InDoubt => Kind::Unknown,
            Corrupt | StoreFailed => Kind::Corrupt,
        }
    }

    /// Returns the reason as one lower-case word, for front-ends, logs and metrics; it never
    /// changes once released.
    pub fn name(self) -> &'static str {
        use Reason::*;
        match self {
            Malformed => "malformed",
            TooLarge => "too_large",
            NotANumber => "not_a_number",
            NoSuchBucket => "no_such_bucket",
            NoSuchType => "no_such_type",
            NotSupported => "not_supported",
            SessionExpired => "session_expired",
            RequestExpired => "request_expired",
            Forbidden => "forbidden",
            Unauthenticated => "unauthenticated",
            NotFound => "not_found",
            AssertionFailed => "assertion_failed",
            AlreadyExists => "already_exists",
            Changed => "changed",
            Overloaded => "overloaded",
            OutOfSpace => "out_of_space",
            TooMany => "too_many",
            NotMaster => "not_master",
            NoQuorum => "no_quorum",
            StaleReplica => "stale_replica",
            ShuttingDown => "shutting_down",
            Moved => "moved",
            NoLongerMaster => "no_longer_master",
            DeadlinePassed => "deadline_passed",
            Corrupt => "corrupt",
            StoreFailed => "store_failed",
            Siblings => "siblings",
            TooManySiblings => "too_many_siblings",
            ReadQuorumUnmet => "read_quorum_unmet",
            WriteQuorumUnmet => "write_quorum_unmet",
            NotBootstrapped => "not_bootstrapped",
            RetryMismatch => "retry_mismatch",
            InDoubt => "in_doubt",
            StartFailed => "start_failed",
            InUse => "in_use",
            MetadataChanged => "metadata_changed",
            Starting => "starting",
            Quota => "quota",
            NoSuchIndex => "no_such_index",
            IndexBuilding => "index_building",
            IndexFailed => "index_failed",
            FeedOff => "feed_off",
            FeedBuilding => "feed_building",
            MalformedToken => "malformed_token",
        }
    }

    /// Every reason, for front-ends' exhaustive tests and for the docs; new ones are appended.
    pub const ALL: [Reason; 44] = {
        use Reason::*;
        [
            Malformed,
            TooLarge,
            NotANumber,
            NoSuchBucket,
            NoSuchType,
            NotSupported,
            SessionExpired,
            RequestExpired,
            Forbidden,
            NotFound,
            AssertionFailed,
            AlreadyExists,
            Changed,
            Overloaded,
            OutOfSpace,
            TooMany,
            NotMaster,
            NoQuorum,
            StaleReplica,
            ShuttingDown,
            Moved,
            NoLongerMaster,
            DeadlinePassed,
            Corrupt,
            StoreFailed,
            Siblings,
            TooManySiblings,
            ReadQuorumUnmet,
            WriteQuorumUnmet,
            NotBootstrapped,
            RetryMismatch,
            InDoubt,
            StartFailed,
            InUse,
            MetadataChanged,
            Starting,
            Unauthenticated,
            Quota,
            NoSuchIndex,
            IndexBuilding,
            IndexFailed,
            FeedOff,
            FeedBuilding,
            MalformedToken,
        ]
    };
}

/// Error for the caller. The detail never holds a value's bytes. It holds a key only if the reason
/// defines it (`NotFound`, `AssertionFailed`), because clients of those need it.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    /// Situation of the error.
    pub reason: Reason,
    /// A sentence with the remedy, or the key if the reason defines it. Bytes, since keys are
    /// bytes.
    pub detail: bytes::Bytes,
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Builds an error from a sentence.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Error {
        Error { reason, detail: bytes::Bytes::from(detail.into()) }
    }

    /// Builds an error whose detail is a key.
    pub fn key(reason: Reason, key: &bytes::Bytes) -> Error {
        Error { reason, detail: key.clone() }
    }

    /// Returns the kind of its reason.
    pub fn kind(&self) -> Kind {
        self.reason.kind()
    }

    /// Returns the detail as text; bytes that are not UTF-8 appear as `\xNN`.
    pub fn text(&self) -> String {
        crate::codec::printable(&self.detail)
    }
}

/// Returns the error of stored bytes that do not decode.
pub fn corrupt(malformed: Malformed) -> Error {
    let text = format!("stored data can't be decoded ({}): run `credenza verify`", malformed.0);
    Error::new(Reason::Corrupt, text)
}

/// Returns the refusal of what exceeds a limit. `what`: its unit, as "bytes in a key"; `name`: the
/// name of the limit.
pub(crate) fn too_large(what: &str, found: usize, name: &str, max: usize) -> Error {
    Error::new(Reason::TooLarge, format!("{found} {what}; at most {max} are allowed ({name})"))
}

/// Returns the refusal of a request that comes while the node stops.
pub fn shutting_down() -> Error {
    Error::new(Reason::ShuttingDown, "the node is stopping")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.name(), self.text())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({})", self.reason, self.text())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_words_are_unique() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
    }

    #[test]
    fn binary_error_detail_is_escaped_in_display() {
        let error = Error::key(Reason::NotFound, &bytes::Bytes::from_static(b"a\xff\n"));
        assert_eq!(error.to_string(), "not_found: a\\xff\\x0a");
    }
}

//! Translation of the database's errors into RESP: an error code that clients match on, then a
//! sentence.
//!
//! If Redis has a code of the same meaning, the answer uses that code, so that unmodified clients
//! react correctly: they retry on `LOADING`, and look for the master on `READONLY`. Otherwise the
//! code is Credenza's. `docs/use/resp.md` lists all of them.

use base::{BucketName, Error, Reason};

/// Error answer that the front-end decides without the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RespRefusal(pub std::borrow::Cow<'static, str>);

impl RespRefusal {
    /// Returns a refusal with a constant text.
    pub const fn new(text: &'static str) -> RespRefusal {
        RespRefusal(std::borrow::Cow::Borrowed(text))
    }

    /// Returns a refusal with a text built at run time.
    pub fn from_text(text: String) -> RespRefusal {
        RespRefusal(std::borrow::Cow::Owned(text))
    }
}

/// Refusal of options that contradict each other or are unknown.
pub const SYNTAX: RespRefusal = RespRefusal::new("ERR syntax error");
/// Refusal of an argument that must be a 64-bit number.
pub const NOT_AN_INTEGER: RespRefusal =
    RespRefusal::new("ERR value is not an integer or out of range");
/// Refusal of an argument that must be a floating point number.
pub const NOT_A_FLOAT: RespRefusal = RespRefusal::new("ERR value is not a valid float");
/// Refusal of a database other than 0.
pub const NO_SUCH_DATABASE: RespRefusal = RespRefusal::new("ERR DB index is out of range");
/// Refusal of a client that has not logged in, in Redis' words: its clients know them.
pub const NO_AUTH: RespRefusal = RespRefusal::new("NOAUTH Authentication required.");
/// Refusal of a name or password, in Redis' words.
pub const WRONG_PASSWORD: RespRefusal =
    RespRefusal::new("WRONGPASS invalid username-password pair or user is disabled.");
/// Error for a key that must exist.
pub const NO_SUCH_KEY: &str = "ERR no such key";
/// Error for a command that matches too many keys for one answer, with the remedy.
pub const TOO_MANY_KEYS: &str = "ERR too many keys for one answer: use SCAN, or page with \
                                 CREDENZA.RANGE";

/// Commands that read and resolve a key with several values, appended to the error.
const HOW_SIBLINGS: &str = "(CREDENZA.FETCH key, then CREDENZA.STORE key value CONTEXT context)";

/// Returns the error for an operation on siblings in a consistent bucket.
pub fn no_siblings(bucket: &BucketName) -> Error {
    let text = format!(
        "{bucket} is a consistent bucket: its keys have one value, and no context; use GET, SET \
         and DEL, and CREDENZA.TAS to compare and set"
    );
    Error::new(Reason::NotSupported, text)
}

/// Returns the error `wrong number of arguments`, in Redis' words.
pub fn arity(command: &str) -> RespRefusal {
    RespRefusal::from_text(format!("ERR wrong number of arguments for '{command}' command"))
}

/// Returns the error code of a reason.
pub fn code(reason: Reason) -> &'static str {
    match reason {
        Reason::Malformed => "ERR",
        Reason::TooLarge => "ERR",
        Reason::NotANumber => "ERR",
        Reason::NoSuchBucket => "NOBUCKET",
        Reason::NoSuchType => "NOTYPE",
        Reason::NoSuchIndex => "NOINDEX",
        Reason::NotSupported => "ERR",
        Reason::SessionExpired => "SESSIONEXPIRED",
        Reason::RequestExpired => "REQUESTEXPIRED",
        Reason::RetryMismatch => "RETRYMISMATCH",
        Reason::Forbidden => "NOPERM",
        Reason::Unauthenticated => "NOAUTH",
        Reason::NotFound => "ERR",
        Reason::AssertionFailed => "ASSERTFAILED",
        Reason::AlreadyExists => "EXISTS",
        Reason::Changed => "CHANGED",
        Reason::Overloaded => "OVERLOADED",
        Reason::OutOfSpace => "NOSPACE",
        Reason::TooMany => "TOOMANY",
        Reason::NotMaster => "READONLY",
        Reason::NoQuorum => "NOREPLICAS",
        Reason::StaleReplica => "STALEREPLICA",
        Reason::Starting | Reason::ShuttingDown | Reason::NotBootstrapped => "LOADING",
        Reason::Moved => "MOVEDAWAY",
        Reason::MetadataChanged => "TRYAGAIN",
        Reason::StartFailed => "STARTFAILED",
        Reason::InUse => "INUSE",
        Reason::Quota => "QUOTA",
        Reason::IndexBuilding => "INDEXBUILDING",
        Reason::IndexFailed => "INDEXFAILED",
        Reason::FeedOff => "FEEDOFF",
        Reason::FeedBuilding => "FEEDBUILDING",
        Reason::MalformedToken => "BADTOKEN",
        Reason::NoLongerMaster => "UNKNOWN",
        Reason::DeadlinePassed => "UNKNOWN",
        Reason::InDoubt => "UNKNOWN",
        Reason::Corrupt => "CORRUPT",
        Reason::StoreFailed => "STOREFAILED",
        Reason::Siblings => "SIBLINGS",
        Reason::TooManySiblings => "SIBLINGS",
        Reason::ReadQuorumUnmet => "NOREPLICAS",
        Reason::WriteQuorumUnmet => "UNKNOWN",
    }
}

/// Returns the whole text of an error.
pub fn text(error: &Error) -> String {
    let detail = error.text();
    match error.reason {
        Reason::NotFound => NO_SUCH_KEY.into(),
        Reason::NoLongerMaster
        | Reason::DeadlinePassed
        | Reason::WriteQuorumUnmet
        | Reason::InDoubt => {
            format!("UNKNOWN the request may have been applied, read before you retry: {detail}")
        }
        Reason::NotMaster if detail == "None" => {
            "READONLY mastership moved before the request was done: nothing happened, send it again"
                .into()
        }
        Reason::NotMaster => format!(
            "READONLY mastership moved to {detail} before the request was done: nothing happened, \
             send it again"
        ),
        Reason::Siblings | Reason::TooManySiblings => format!("SIBLINGS {detail} {HOW_SIBLINGS}"),
        reason if detail.is_empty() => format!("{} {}", code(reason), reason.name()),
        reason => format!("{} {detail}", code(reason)),
    }
}

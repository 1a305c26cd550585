//! Our reasons in Redis' words: a code word that clients can match on, then a sentence.
//!
//! Where Redis has a word of the same meaning, that word is used, so that unmodified clients do the
//! right thing (`LOADING` is retried, `READONLY` makes them look for the master). Where it has
//! none, the word is ours. All of them stand in `docs/use/resp.md`.

use base::{BucketName, Error, Reason};

/// An answer that is an error and was decided here, without asking the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RespRefusal(pub std::borrow::Cow<'static, str>);

impl RespRefusal {
    /// With words that are always the same.
    pub const fn new(text: &'static str) -> RespRefusal {
        RespRefusal(std::borrow::Cow::Borrowed(text))
    }

    /// With words made for the occasion.
    pub fn made(text: String) -> RespRefusal {
        RespRefusal(std::borrow::Cow::Owned(text))
    }
}

/// Options that don't go together or mean nothing.
pub const SYNTAX: RespRefusal = RespRefusal::new("ERR syntax error");
/// A word that should be a 64-bit number.
pub const NOT_AN_INTEGER: RespRefusal =
    RespRefusal::new("ERR value is not an integer or out of range");
/// A word that should be a floating point number.
pub const NOT_A_FLOAT: RespRefusal = RespRefusal::new("ERR value is not a valid float");
/// A database other than 0.
pub const NO_SUCH_DATABASE: RespRefusal = RespRefusal::new("ERR DB index is out of range");
/// A key that must be there.
pub const NO_SUCH_KEY: &str = "ERR no such key";
/// What makes an answer too large, and the remedy.
pub const TOO_MANY_KEYS: &str = "ERR too many keys for one answer: use SCAN, or page with \
                                 CREDENZA.RANGE";

/// What a key with several values is read and settled with.
const HOW_SIBLINGS: &str = "(CREDENZA.FETCH key, then CREDENZA.STORE key value CONTEXT context)";

/// A consistent bucket was asked for siblings.
pub fn no_siblings(bucket: &BucketName) -> Error {
    let text = format!(
        "{bucket} is no available bucket: its keys have one value, and no context; use GET, SET \
         and DEL, and CREDENZA.TAS for what must not have changed"
    );
    Error::new(Reason::NotSupported, text)
}

/// `wrong number of arguments`, in Redis' words.
pub fn arity(command: &str) -> RespRefusal {
    RespRefusal::made(format!("ERR wrong number of arguments for '{command}' command"))
}

/// The code word of a reason.
pub fn code(reason: Reason) -> &'static str {
    match reason {
        Reason::Malformed => "ERR",
        Reason::TooLarge => "ERR",
        Reason::NotANumber => "ERR",
        Reason::NoSuchBucket => "NOBUCKET",
        Reason::NoSuchType => "NOTYPE",
        Reason::NotSupported => "ERR",
        Reason::SessionExpired => "SESSIONEXPIRED",
        Reason::RequestExpired => "REQUESTEXPIRED",
        Reason::RetryMismatch => "RETRYMISMATCH",
        Reason::Forbidden => "NOPERM",
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

/// The whole text of an error.
pub fn text(error: &Error) -> String {
    let detail = error.text();
    match error.reason {
        Reason::NotFound => NO_SUCH_KEY.into(),
        Reason::NoLongerMaster
        | Reason::DeadlinePassed
        | Reason::WriteQuorumUnmet
        | Reason::InDoubt => {
            format!("UNKNOWN it may have been applied, read before you retry: {detail}")
        }
        Reason::NotMaster if detail == "None" => {
            "READONLY mastership moved before this was done: nothing happened, send it again".into()
        }
        Reason::NotMaster => format!(
            "READONLY mastership moved to {detail} before this was done: nothing happened, send it \
             again"
        ),
        Reason::Siblings | Reason::TooManySiblings => format!("SIBLINGS {detail} {HOW_SIBLINGS}"),
        reason if detail.is_empty() => format!("{} {}", code(reason), reason.word()),
        reason => format!("{} {detail}", code(reason)),
    }
}

//! The house's errors in HTTP's words: one status per reason, one JSON body for all.

use super::json::write;
use crate::http::{Answer, Content, Refused, Status};
use base::{Error, Reason};

/// The status of a reason.
pub fn status(reason: Reason) -> Status {
    match reason {
        Reason::NotFound | Reason::NoSuchBucket | Reason::NoSuchType => Status::NotFound,
        Reason::TooLarge => Status::TooLarge,
        Reason::Malformed
        | Reason::NotANumber
        | Reason::NotSupported
        | Reason::SessionExpired
        | Reason::OutsideWindow
        | Reason::RetryMismatch => Status::BadRequest,
        Reason::Forbidden => Status::Forbidden,
        Reason::AssertionFailed
        | Reason::AlreadyExists
        | Reason::Changed
        | Reason::Siblings
        | Reason::TooManySiblings => Status::Conflict,
        Reason::Overloaded
        | Reason::OutOfSpace
        | Reason::TooMany
        | Reason::NotMaster
        | Reason::NoQuorum
        | Reason::NotFresh
        | Reason::GoingDown
        | Reason::NoCluster
        | Reason::Moved
        | Reason::TooFewAnswered => Status::Unavailable,
        Reason::NoLongerMaster | Reason::DeadlinePassed | Reason::TooFewStored => {
            Status::GatewayTimeout
        }
        Reason::Damaged | Reason::StoreFailed => Status::InternalError,
    }
}

/// The answer that tells an error.
pub fn answer(error: &Error) -> Answer {
    with_status(status(error.reason), error)
}

/// The same under another status.
pub fn with_status(status: Status, error: &Error) -> Answer {
    let mut body = Vec::with_capacity(128);
    body.push(b'{');
    error_onto(&mut body, error);
    body.push(b'}');
    Answer::new(status, Content::Json(body.into()))
}

/// `"error":{..}`, without braces around.
pub fn error_onto(out: &mut Vec<u8>, error: &Error) {
    out.extend_from_slice(b"\"error\":{\"reason\":\"");
    out.extend_from_slice(error.reason.word().as_bytes());
    out.extend_from_slice(b"\",\"kind\":\"");
    out.extend_from_slice(error.kind().word().as_bytes());
    out.extend_from_slice(b"\",\"detail\":");
    write::bytes_onto(out, &error.detail);
    out.push(b'}');
}

/// The error that a refusal of the framing is.
pub fn refusal(refused: &Refused) -> (Status, Error) {
    let reason = match refused.status {
        Status::TooLarge | Status::UriTooLong | Status::HeadersTooLarge => Reason::TooLarge,
        Status::Misdirected | Status::Forbidden => Reason::Forbidden,
        Status::NotImplemented | Status::VersionNotSupported | Status::UnsupportedMediaType => {
            Reason::NotSupported
        }
        _ => Reason::Malformed,
    };
    (refused.status, Error::new(reason, refused.detail))
}

/// `malformed`, in words.
pub fn malformed(words: impl Into<String>) -> Error {
    Error::new(Reason::Malformed, words)
}

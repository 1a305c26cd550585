//! Translation of errors into HTTP: one status per reason, one form of JSON body for all.

use super::json::write;
use crate::http::{AnswerContent, HttpAnswer, RequestRefusal, StatusCode};
use base::index::BuildProgress;
use base::{Error, Reason};

/// Returns the status of a reason.
pub fn status(reason: Reason) -> StatusCode {
    match reason {
        Reason::NotFound | Reason::NoSuchBucket | Reason::NoSuchType | Reason::NoSuchIndex => {
            StatusCode::NotFound
        }
        Reason::TooLarge => StatusCode::TooLarge,
        Reason::Malformed
        | Reason::NotANumber
        | Reason::NotSupported
        | Reason::FeedOff
        | Reason::MalformedToken
        | Reason::SessionExpired
        | Reason::RequestExpired
        | Reason::RetryMismatch => StatusCode::BadRequest,
        Reason::Forbidden => StatusCode::Forbidden,
        Reason::Unauthenticated => StatusCode::Unauthorized,
        Reason::AssertionFailed
        | Reason::AlreadyExists
        | Reason::Changed
        | Reason::Siblings
        | Reason::TooManySiblings
        | Reason::IndexFailed => StatusCode::Conflict,
        Reason::Overloaded
        | Reason::OutOfSpace
        | Reason::TooMany
        | Reason::NotMaster
        | Reason::NoQuorum
        | Reason::StaleReplica
        | Reason::Starting
        | Reason::ShuttingDown
        | Reason::NotBootstrapped
        | Reason::Moved
        | Reason::MetadataChanged
        | Reason::StartFailed
        | Reason::InUse
        | Reason::IndexBuilding
        | Reason::FeedBuilding
        | Reason::ReadQuorumUnmet => StatusCode::Unavailable,
        Reason::Quota => StatusCode::TooManyRequests,
        Reason::NoLongerMaster
        | Reason::DeadlinePassed
        | Reason::WriteQuorumUnmet
        | Reason::InDoubt => StatusCode::GatewayTimeout,
        Reason::Corrupt | Reason::StoreFailed => StatusCode::InternalError,
    }
}

/// Returns the answer to an error.
pub fn answer(error: &Error) -> HttpAnswer {
    with_status(status(error.reason), error)
}

/// Returns the answer to an error, under another status.
pub fn with_status(status: StatusCode, error: &Error) -> HttpAnswer {
    let mut body = Vec::with_capacity(128);
    body.push(b'{');
    append_error(&mut body, error);
    body.push(b'}');
    HttpAnswer::new(status, AnswerContent::Json(body.into()))
}

/// Appends `"error":{..}`, without the outer braces.
pub fn append_error(out: &mut Vec<u8>, error: &Error) {
    out.extend_from_slice(b"\"error\":{\"reason\":\"");
    out.extend_from_slice(error.reason.name().as_bytes());
    out.extend_from_slice(b"\",\"kind\":\"");
    out.extend_from_slice(error.kind().name().as_bytes());
    out.extend_from_slice(b"\",\"detail\":");
    write::append_bytes(out, &error.detail);
    if let Some(BuildProgress { done, total }) = BuildProgress::from_error(error) {
        out.extend_from_slice(b",\"done\":");
        write::append_number(out, done);
        out.extend_from_slice(b",\"total\":");
        write::append_number(out, total);
    }
    out.push(b'}');
}

/// Returns the status and the error of a refusal by the HTTP parser.
pub fn refusal(refused: &RequestRefusal) -> (StatusCode, Error) {
    let reason = match refused.status {
        StatusCode::TooLarge | StatusCode::UriTooLong | StatusCode::HeadersTooLarge => {
            Reason::TooLarge
        }
        StatusCode::Misdirected | StatusCode::Forbidden => Reason::Forbidden,
        StatusCode::NotImplemented
        | StatusCode::VersionNotSupported
        | StatusCode::UnsupportedMediaType => Reason::NotSupported,
        _ => Reason::Malformed,
    };
    (refused.status, Error::new(reason, refused.detail))
}

/// Returns a `Malformed` error with this text.
pub fn malformed(text: impl Into<String>) -> Error {
    Error::new(Reason::Malformed, text)
}

//! Translation of the database's errors into Riak's.

use super::answer::RiakResponse;
use base::{Error, Reason, Share, Shortfall};
use serde_json::json;

/// Returns the answer to an error: Riak's status and text, and a header with the reason and detail
/// that all front-ends report.
pub(super) fn answer(error: &Error) -> RiakResponse {
    let cause = json!({ "reason": error.reason.name(), "detail": error.text() });
    render(error).with_header("X-Credenza-Error", cause.to_string())
}

fn render(error: &Error) -> RiakResponse {
    if let Some(shortfall) = Shortfall::from_error(error) {
        return RiakResponse::text(503, unsatisfied_quorum(shortfall));
    }
    if let Some(n_val) = exceeded_n_val(error) {
        let message = "Specified w/dw/pw/node_confirms values invalid for bucket n value of";
        return RiakResponse::text(400, format!("{message} {n_val}\n"));
    }
    use Reason::*;
    match error.reason {
        NotFound => RiakResponse::text(404, "not found\n"),
        NoSuchType | NoSuchBucket => {
            RiakResponse::text(404, format!("Unknown bucket type: {}\n", unknown_type(error)))
        }
        DeadlinePassed => RiakResponse::text(503, "request timed out\n"),
        TooLarge => RiakResponse::text(413, error_line(error)),
        // Riak answers so for a field that it can't know; it has no declared indexes.
        Malformed | NotANumber | NotSupported | SessionExpired | RequestExpired | RetryMismatch
        | NoSuchIndex | FeedOff | MalformedToken => RiakResponse::text(400, error_line(error)),
        Forbidden => RiakResponse::text(403, error_line(error)),
        Unauthenticated => RiakResponse::text(401, error_line(error))
            .with_header("WWW-Authenticate", "Basic realm=\"Riak\""),
        AssertionFailed | AlreadyExists => RiakResponse::text(412, ""),
        Changed | Siblings | IndexFailed => RiakResponse::text(409, error_line(error)),
        TooManySiblings => RiakResponse::text(503, error_line(error)),
        Quota => RiakResponse::text(429, error_line(error)).with_header("Retry-After", "1"),
        Overloaded | OutOfSpace | TooMany | NotMaster | NoQuorum | StaleReplica | Starting
        | ShuttingDown | NotBootstrapped | Moved | MetadataChanged | ReadQuorumUnmet
        | StartFailed | InUse | IndexBuilding | FeedBuilding | WriteQuorumUnmet
        | NoLongerMaster | InDoubt => {
            RiakResponse::text(503, format!("Unable to connect to Riak: {}", error_line(error)))
        }
        Corrupt | StoreFailed => RiakResponse::text(500, format!("Error:\n{}", error_line(error))),
    }
}

/// Returns `R-value unsatisfied: 1/2`. Clients search for the name of the quorum.
fn unsatisfied_quorum(shortfall: Shortfall) -> String {
    let name = match shortfall.share {
        Share::W => return "Too Many write failures to satisfy W/DW\n".into(),
        Share::R => "R",
        Share::Pr => "PR",
        Share::Dw => "DW",
        Share::Pw => "PW",
        Share::NodeConfirms => "node_confirms",
    };
    format!("{name}-value unsatisfied: {}/{}\n", shortfall.got, shortfall.needed)
}

/// Returns the bucket type that the error names as unknown.
pub(super) fn unknown_type(error: &Error) -> String {
    let text = error.text();
    let kind = text.split('`').nth(1).and_then(|name| name.split('/').next());
    kind.unwrap_or_default().to_string()
}

/// Returns the number of replicas (`n_val`) if the error is that the request requires more.
pub(super) fn exceeded_n_val(error: &Error) -> Option<u8> {
    let text = error.text();
    let (_, n) = text.split_once(" can't be more than n_val, which is ")?;
    n.parse().ok()
}

/// Detail of the answer to a write that took effect but whose values do not fit into memory.
pub(super) const STORED_WITHOUT_VALUE: &str =
    "the value is stored; there is no memory to return it (buffer_bytes_max)";

fn error_line(error: &Error) -> String {
    format!("{}\n", error.text())
}

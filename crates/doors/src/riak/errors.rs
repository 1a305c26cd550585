//! Errors in Riak's words.

use super::answer::Answer;
use base::{Error, Reason, Share, Shortfall};

/// What an error of the node is to Riak's clients.
pub(super) fn answer(error: &Error) -> Answer {
    if let Some(shortfall) = Shortfall::told(error) {
        return Answer::text(503, too_few(shortfall));
    }
    use Reason::*;
    match error.reason {
        NotFound => Answer::text(404, "not found\n"),
        NoSuchType => Answer::text(404, "Unknown bucket type\n"),
        DeadlinePassed => Answer::text(503, "request timed out\n"),
        TooLarge => Answer::text(413, line(error)),
        Malformed | NotANumber | NotSupported | NoSuchBucket | SessionExpired | OutsideWindow => {
            Answer::text(400, line(error))
        }
        Forbidden => Answer::text(403, line(error)),
        AssertionFailed | AlreadyExists => Answer::text(412, ""),
        Changed | Siblings => Answer::text(409, line(error)),
        TooManySiblings => Answer::text(503, line(error)),
        Overloaded | OutOfSpace | TooMany | NotMaster | NoQuorum | NotFresh | GoingDown
        | NoCluster | Moved | TooFewAnswered | TooFewStored | NoLongerMaster => {
            Answer::text(503, format!("Unable to connect to Riak: {}", line(error)))
        }
        Damaged | StoreFailed => Answer::text(500, format!("Error:\n{}", line(error))),
    }
}

/// `R-value unsatisfied: 1/2`; clients look for the number's name.
fn too_few(of: Shortfall) -> String {
    let name = match of.share {
        Share::W => return "Too Many write failures to satisfy W/DW\n".into(),
        Share::R => "R",
        Share::Pr => "PR",
        Share::Dw => "DW",
        Share::Pw => "PW",
        Share::NodeConfirms => "node_confirms",
    };
    format!("{name}-value unsatisfied: {}/{}\n", of.got, of.needed)
}

fn line(error: &Error) -> String {
    format!("{}\n", error.text())
}

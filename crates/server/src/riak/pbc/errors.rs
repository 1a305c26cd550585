//! Errors of the database as the texts that Riak's clients look for.

use super::super::datatypes::{NO_COUNTERS, plain_values_text};
use super::super::errors::{exceeded_n_val, unknown_type};
use super::plan::PbcShape;
use base::{Error, Kind, Reason, Share, Shortfall};

/// Returns the text of an error, Erlang's terms among them.
pub(super) fn error_message(error: &Error) -> String {
    if let Some(Shortfall { share, got, needed }) = Shortfall::from_error(error) {
        let name = match share {
            Share::R => "r_val_unsatisfied",
            Share::Pr => "pr_val_unsatisfied",
            Share::W => "w_val_unsatisfied",
            Share::Dw => "dw_val_unsatisfied",
            Share::Pw => "pw_val_unsatisfied",
            Share::NodeConfirms => "node_confirms_val_unsatisfied",
        };
        return format!("{{{name},{needed},{got}}}");
    }
    if let Some(n_val) = exceeded_n_val(error) {
        return format!("{{n_val_violation,{n_val}}}");
    }
    match error.reason {
        Reason::NotFound => "notfound".into(),
        Reason::NoSuchType | Reason::NoSuchBucket => no_type(&unknown_type(error)),
        Reason::DeadlinePassed => "timeout".into(),
        Reason::AssertionFailed | Reason::AlreadyExists => "match_found".into(),
        Reason::Changed => "modified".into(),
        Reason::Forbidden => format!("Permission denied: {}", error.text()),
        _ => error.text().to_string(),
    }
}

/// Returns the text of a refusal of an unknown bucket type.
pub(super) fn no_type(kind: &str) -> String {
    format!("No bucket-type named '{kind}'")
}

/// Returns the text of an error, with Riak's own texts where a request has some.
pub(super) fn error_text(shape: &PbcShape, error: &Error) -> String {
    let plain_text = error_message(error);
    match shape {
        PbcShape::Counter | PbcShape::CounterUpdated if error.reason == Reason::NotSupported => {
            NO_COUNTERS.into()
        }
        PbcShape::Typed { .. } if error.reason == Reason::NotSupported => {
            plain_values_text(error, true).map_or(plain_text, String::from)
        }
        PbcShape::TypeChanged { may_be_counter, .. } if error.reason == Reason::NotSupported => {
            plain_values_text(error, *may_be_counter).map_or(plain_text, String::from)
        }
        PbcShape::Stored { unmet, .. } if error.kind() == Kind::Conflict => (*unmet).into(),
        PbcShape::Altered(_) if error.kind() == Kind::Invalid => {
            format!("Invalid bucket properties: {plain_text}")
        }
        PbcShape::Index(_) if error.kind() == Kind::Invalid => {
            format!("Invalid query: {plain_text}")
        }
        _ => plain_text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_texts_that_clients_look_for() {
        let message = |reason, text: &'static str| error_message(&Error::new(reason, text));
        assert_eq!(message(Reason::Changed, "x"), "modified");
        assert_eq!(message(Reason::AlreadyExists, "x"), "match_found");
        assert_eq!(message(Reason::DeadlinePassed, "x"), "timeout");
        let n_val = "w can't be more than n_val, which is 3";
        assert_eq!(message(Reason::Malformed, n_val), "{n_val_violation,3}");
        let no_type = "there is no type of `plain/b`";
        assert_eq!(message(Reason::NoSuchType, no_type), "No bucket-type named 'plain'");
        assert_eq!(message(Reason::Overloaded, "wait"), "wait");
    }
}

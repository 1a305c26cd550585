//! Errors of the database as the texts that Riak's clients look for.

use crate::answer::append_answer;
use crate::messages::RpbErrorResp;
use base::{Error, Reason, Share, Shortfall};

/// Returns the text of an error, Erlang's terms among them.
pub fn error_message(error: &Error) -> String {
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
    let text = error.text();
    let n_val = text.split_once(" can't be more than n_val, which is ");
    if let Some((_, n_val)) = n_val.filter(|(_, n_val)| n_val.parse::<u8>().is_ok()) {
        return format!("{{n_val_violation,{n_val}}}");
    }
    match error.reason {
        Reason::NotFound => "notfound".into(),
        Reason::NoSuchType | Reason::NoSuchBucket => {
            let kind = text.split('`').nth(1).and_then(|name| name.split('/').next());
            format!("No bucket-type named '{}'", kind.unwrap_or_default())
        }
        Reason::DeadlinePassed => "timeout".into(),
        Reason::AssertionFailed | Reason::AlreadyExists => "match_found".into(),
        Reason::Changed => "modified".into(),
        Reason::Forbidden => format!("Permission denied: {text}"),
        _ => text.to_string(),
    }
}

/// Appends the frame of an error.
pub fn append_error(out: &mut Vec<u8>, text: &str) {
    let errmsg = text.trim_end().to_string().into();
    append_answer(out, &RpbErrorResp { errmsg, errcode: 1 });
}

//! Text form of effects and messages.

use crate::consensus::tests::stories::effect_text;
use crate::consensus::{Body, Effect, LogSummary, Message};

/// Returns true if a story records the effect by default: periodic ones need the command `all`.
pub fn is_recorded(effect: &Effect) -> bool {
    match effect {
        Effect::Save { .. } | Effect::SaveDecided { .. } => false,
        Effect::Send { message, .. } => !matches!(
            message.body,
            Body::Probe { .. }
                | Body::Probed { .. }
                | Body::Accept { .. }
                | Body::Accepted { .. }
                | Body::Decide { .. }
                | Body::Heartbeat { .. }
                | Body::Granted { .. }
        ),
        _ => true,
    }
}

/// Returns one effect as text.
pub fn effect_line(effect: &Effect) -> String {
    match effect {
        Effect::Send { to, message } => format!("to node {to}: {}", message_text(message)),
        Effect::Stage { index, ballot } => format!("Stage as far as {index} under {ballot}"),
        other => effect_text(other),
    }
}

fn message_text(message: &Message) -> String {
    let under = message.ballot;
    match message.body {
        Body::Probe { round } => format!("who is there? (round {round}, promised {under})"),
        Body::Probed { round, reply } => {
            let bound = if reply.must_abstain { "bound by a lease" } else { "free" };
            let seeks = if reply.is_candidate { ", a candidate" } else { "" };
            let log = accepted_text(reply.log);
            format!("round {round}: I am, {bound}{seeks}, promised {under}, {log}")
        }
        Body::Prepare { released } if released.round == 0 => format!("promise {under}"),
        Body::Prepare { released } => format!("promise {under}, {released} gave its lease back"),
        Body::Promise { log } => format!("{under} is promised, {}", accepted_text(log)),
        Body::TornPromise { log, tear } => {
            let log = accepted_text(log);
            format!("{under} is promised, {log}, and maybe more: torn at {}", tear.0)
        }
        Body::LogEnd { tear, last } => {
            format!("torn at {}, you lack nothing with {last} under {under}", tear.0)
        }
        Body::Refused { promised } => format!("not {under}: {promised} is promised"),
        Body::Fetch { after } => format!("{under} lacks what is behind {after}"),
        Body::Fetched { after, last } => {
            format!("for {under}: the values behind {after}, to {last}")
        }
        Body::Behind => format!("{under} can't give you what you lack"),
        Body::Adopt { from, last } => format!("keep {from}, adopt up to {last} under {under}"),
        Body::Accept { after, last, decided } => {
            format!("accept the values behind {after}, to {last}, under {under}; decided {decided}")
        }
        Body::Accepted { last } => format!("accepted up to {last} under {under}"),
        Body::Staged { last } => format!("staged up to {last} for {under}"),
        Body::Sent { last } => format!("sent up to {last} under {under}: say what is here"),
        Body::Gap { last } => format!("what is behind {last} is missing under {under}"),
        Body::Decide { last } => format!("decided {last} under {under}"),
        Body::Heartbeat { lease: Some(_), .. } => {
            format!("{under} lives, and asks for its lease")
        }
        Body::Heartbeat { .. } => format!("{under} lives"),
        Body::Granted { lease: Some(_), .. } => format!("{under} has its lease"),
        Body::Granted { .. } => format!("{under} was heard"),
        Body::Outdated => format!("{under} is of a configuration that is over"),
        Body::Straggling { decided } => format!("I know only what was decided up to {decided}"),
        Body::Learn { after, last, end } => {
            format!("decided behind {after}, to {last}; that configuration ends at {end}")
        }
        Body::Ended => "the group goes on without you".into(),
        Body::HandOver => format!("{under} is over: lead now"),
    }
}

fn accepted_text(log: LogSummary) -> String {
    format!("accepted {} under {}, decided {}", log.last, log.ballot, log.decided)
}

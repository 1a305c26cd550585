//! Text form of effects and messages.

use crate::consensus::tests::stories::tell_one;
use crate::consensus::{Accepted, Body, Effect, Message};

/// Returns true if a story records the effect by default: periodic ones need the command `all`.
pub fn is_news(effect: &Effect) -> bool {
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
pub fn tell(effect: &Effect) -> String {
    match effect {
        Effect::Send { to, message } => format!("to node {to}: {}", say(message)),
        Effect::Stage { index, ballot } => format!("Stage as far as {index} under {ballot}"),
        other => tell_one(other),
    }
}

fn say(message: &Message) -> String {
    let under = message.ballot;
    match message.body {
        Body::Probe { round } => format!("who is there? (round {round}, promised {under})"),
        Body::Probed { round, standing } => {
            let bound = if standing.bound { "bound by a lease" } else { "free" };
            let seeks = if standing.candidate { ", a candidate" } else { "" };
            let log = tell_accepted(standing.log);
            format!("round {round}: I am, {bound}{seeks}, promised {under}, {log}")
        }
        Body::Prepare { released } if released.round == 0 => format!("promise {under}"),
        Body::Prepare { released } => format!("promise {under}, {released} gave its lease back"),
        Body::Promise { log } => format!("{under} is promised, {}", tell_accepted(log)),
        Body::TornPromise { log, tear } => {
            let log = tell_accepted(log);
            format!("{under} is promised, {log}, and maybe more: torn at {}", tear.0)
        }
        Body::Level { tear, upto } => {
            format!("torn at {}, you lack nothing with {upto} under {under}", tear.0)
        }
        Body::Refused { promised } => format!("not {under}: {promised} is promised"),
        Body::Fetch { after } => format!("{under} lacks what is behind {after}"),
        Body::Fetched { after, upto } => {
            format!("for {under}: the values behind {after}, to {upto}")
        }
        Body::Behind => format!("{under} can't give you what you lack"),
        Body::Adopt { from, upto } => format!("keep {from}, adopt up to {upto} under {under}"),
        Body::Accept { after, upto, decided } => {
            format!("accept the values behind {after}, to {upto}, under {under}; decided {decided}")
        }
        Body::Accepted { upto } => format!("accepted up to {upto} under {under}"),
        Body::Staged { upto } => format!("staged up to {upto} for {under}"),
        Body::Sent { upto } => format!("sent up to {upto} under {under}: say what is here"),
        Body::Gap { last } => format!("what is behind {last} is missing under {under}"),
        Body::Decide { upto } => format!("decided {upto} under {under}"),
        Body::Heartbeat { asks: true, .. } => format!("{under} lives, and asks for its lease"),
        Body::Heartbeat { .. } => format!("{under} lives"),
        Body::Granted { asked: true, .. } => format!("{under} has its lease"),
        Body::Granted { .. } => format!("{under} was heard"),
        Body::Outdated => format!("{under} is of a configuration that is over"),
        Body::Straggling { decided } => format!("I know only what was decided up to {decided}"),
        Body::Learn { after, upto, end } => {
            format!("decided behind {after}, to {upto}; that configuration ends at {end}")
        }
        Body::Ended => "the group goes on without you".into(),
        Body::HandOver => format!("{under} is over: lead now"),
    }
}

fn tell_accepted(log: Accepted) -> String {
    format!("accepted {} under {}, decided {}", log.last, log.ballot, log.decided)
}

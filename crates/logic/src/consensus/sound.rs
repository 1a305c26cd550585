//! Validation of a message before any of it is used. This node's own state is asserted; another
//! node's message never is: a node that is faulty, or not ours, must not end this one.
//!
//! Only the message itself is checked here. Its handler checks whether its ballot is its sender's,
//! and whether it fits the log.

use super::ballot;
use super::message::{Accepted, Body, Message};
use super::progress::MESSAGE_VALUES_MAX;
use base::{Ballot, LogIndex};

/// Largest valid index: beyond what any log reaches, and so far from overflow that no computation
/// on it gets there.
const INDEX_MAX: LogIndex = LogIndex(u64::MAX / 2);

impl Message {
    /// Returns true if a correct member could send it: its ballots belong to its configuration or
    /// to an earlier one, its ranges run forward and are no longer than a message's, and no index
    /// exceeds the limit.
    pub fn is_sound(&self) -> bool {
        let in_time = |ballot: Ballot| !ballot::is_later(ballot, self.configuration);
        let is_log =
            |log: Accepted| in_time(log.ballot) && log.decided <= log.last && log.last <= INDEX_MAX;
        let is_stretch = |after: LogIndex, upto: LogIndex| {
            after < upto && upto <= INDEX_MAX && upto.0 - after.0 <= MESSAGE_VALUES_MAX
        };
        in_time(self.ballot)
            && match self.body {
                Body::Probe { .. }
                | Body::Granted { .. }
                | Body::Behind
                | Body::HandOver
                | Body::Outdated
                | Body::Ended => true,
                Body::Probed { standing, .. } => is_log(standing.log),
                Body::Promise { log } | Body::TornPromise { log, .. } => is_log(log),
                Body::Prepare { released: ballot } | Body::Refused { promised: ballot } => {
                    in_time(ballot)
                }
                Body::Fetched { after, upto } => is_stretch(after, upto),
                Body::Accept { after, upto, decided } => {
                    is_stretch(after, upto) && decided <= INDEX_MAX
                }
                Body::Learn { after, upto, end } => {
                    is_stretch(after, upto) && upto <= end && end <= INDEX_MAX
                }
                Body::Adopt { from, upto } => from <= upto && upto <= INDEX_MAX,
                Body::Heartbeat { decided, kept, .. } => decided.max(kept) <= INDEX_MAX,
                Body::Fetch { after: one }
                | Body::Accepted { upto: one }
                | Body::Staged { upto: one }
                | Body::Sent { upto: one }
                | Body::Gap { last: one }
                | Body::Decide { upto: one }
                | Body::Level { upto: one, .. }
                | Body::Straggling { decided: one } => one <= INDEX_MAX,
            }
    }
}

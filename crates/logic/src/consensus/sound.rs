//! Validation of a message before any of it is used. This node's own state is asserted; another
//! node's message never is: a node that is faulty, or not ours, must not end this one.
//!
//! Only the message itself is checked here. Its handler checks whether its ballot is its sender's,
//! and whether it fits the log.

use super::ballot;
use super::message::{Body, LogSummary, Message};
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
        let is_current = |ballot: Ballot| !ballot::is_later(ballot, self.configuration);
        let is_log = |log: LogSummary| {
            is_current(log.ballot) && log.decided <= log.last && log.last <= INDEX_MAX
        };
        let is_range = |after: LogIndex, last: LogIndex| {
            after < last && last <= INDEX_MAX && last.0 - after.0 <= MESSAGE_VALUES_MAX
        };
        is_current(self.ballot)
            && match self.body {
                Body::Probe { .. }
                | Body::Granted { .. }
                | Body::Behind
                | Body::HandOver
                | Body::Outdated
                | Body::Ended => true,
                Body::Probed { reply, .. } => is_log(reply.log),
                Body::Promise { log } | Body::TornPromise { log, .. } => is_log(log),
                Body::Prepare { released: ballot } | Body::Refused { promised: ballot } => {
                    is_current(ballot)
                }
                Body::Fetched { after, last } => is_range(after, last),
                Body::Accept { after, last, decided } => {
                    is_range(after, last) && decided <= INDEX_MAX
                }
                Body::Learn { after, last, end } => {
                    is_range(after, last) && last <= end && end <= INDEX_MAX
                }
                Body::Adopt { from, last } => from <= last && last <= INDEX_MAX,
                Body::Heartbeat { decided, saved_by_all, .. } => {
                    decided.max(saved_by_all) <= INDEX_MAX
                }
                Body::Fetch { after: index }
                | Body::Accepted { last: index }
                | Body::Staged { last: index }
                | Body::Sent { last: index }
                | Body::Gap { last: index }
                | Body::Decide { last: index }
                | Body::LogEnd { last: index, .. }
                | Body::Straggling { decided: index } => index <= INDEX_MAX,
            }
    }
}

//! Client side of forwarding: sends a request to its group's master until there is an answer, or it
//! times out.

use super::message;
use base::codec::Malformed;
use base::{
    Call, DirectoryCall, Error, GroupId, Kind, NodeId, Reason, Reply, Request, Result, RingCall,
};
use bytes::Bytes;
use replication::group::Leadership;
use runtime::world::{self, sleep, timeout};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;
use tokio::sync::watch;
use transport::{CallError, Peers};

/// Between two attempts, unless the group has news: links come back unannounced.
const PAUSE: Duration = Duration::from_millis(50);

/// Kind of retry that is safe for a request that may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// No retry: the client must be told.
    Never,
    /// The request may be sent again: its retry id makes it apply once.
    Once,
    /// The request may be sent again: it changes nothing.
    Harmless,
}

impl Repeat {
    pub(super) fn of(request: &Request) -> Repeat {
        match &request.call {
            Call::Update(_) if request.retry.is_some() => Repeat::Once,
            Call::Read(..)
            | Call::Directory(
                DirectoryCall::DescribeBucket
                | DirectoryCall::ListBuckets { .. }
                | DirectoryCall::ListTypes
                | DirectoryCall::Ring(RingCall::Describe | RingCall::Plan | RingCall::Transfers),
            ) => Repeat::Harmless,
            Call::Update(_) | Call::Directory(_) | Call::Session(_) | Call::Available(_) => {
                Repeat::Never
            }
        }
    }
}

/// A forwarded request.
pub(super) struct ForwardedRequest {
    /// Id of this node.
    pub me: NodeId,
    /// Group whose master is asked.
    pub group: GroupId,
    /// The request, encoded.
    pub letter: Bytes,
    pub repeat: Repeat,
    /// Time at which it was submitted, in this node's milliseconds.
    pub began_ms: u64,
    /// Timeout in milliseconds.
    pub within_ms: u64,
    /// Maximum wait for a master to be known or reached, in milliseconds.
    pub patience_ms: u64,
}

/// Verdict on an attempt without a reply.
enum AttemptVerdict {
    /// The client gets the error.
    Final,
    /// The request was not executed: another attempt may find the master.
    Missed,
    /// The request may have been executed.
    InDoubt,
}

impl ForwardedRequest {
    /// Sends the request until there is an answer. `group` returns the group's leadership, and is
    /// called again when the group changes. `here` answers once this node has become master.
    /// `onward` gets the node that was asked in vain, and returns the node that it named.
    pub(super) async fn run<F: Future<Output = Result<Reply>>>(
        &self,
        peers: Option<&Peers>,
        group: impl Fn() -> watch::Receiver<Leadership>,
        here: impl Fn() -> F,
        onward: impl Fn(NodeId, &Error) -> Option<NodeId>,
    ) -> Result<Reply> {
        let mut missed_ms = None;
        let mut doubt: Option<Error> = None;
        let mut named = BTreeSet::new();
        let mut standing = group();
        loop {
            // The group goes on without this replica: from now on others are asked where it is.
            if standing.borrow().dismissed {
                standing = group();
            }
            let master = standing.borrow_and_update().master;
            let answer = match (master, peers) {
                (Some(master), _) if master == self.me => here().await,
                (Some(master), Some(peers)) => self.ask(peers, master).await,
                _ => Err(self.no_master()),
            };
            let error = match answer {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let verdict = self.verdict(&error, master);
            let fails = !matches!(verdict, AttemptVerdict::Final);
            let other = master.filter(|_| fails).and_then(|asked| onward(asked, &error));
            match verdict {
                AttemptVerdict::Final => return Err(self.told(error, doubt)),
                AttemptVerdict::Missed => {}
                // Kept until the end: a later refusal proves nothing about this attempt.
                AttemptVerdict::InDoubt => doubt = Some(error.clone()),
            }
            // A retry after a doubt may use the whole timeout: only an answer ends the doubt.
            let now_ms = world::milliseconds();
            let patience_ms = *missed_ms.get_or_insert(now_ms) + self.patience_ms;
            let deadline_ms = self.began_ms + self.within_ms;
            let until_ms = if doubt.is_some() { deadline_ms } else { deadline_ms.min(patience_ms) };
            if now_ms >= until_ms {
                return Err(self.told(error, doubt));
            }
            // A node that is named for the first time is asked at once.
            if other.is_none_or(|other| !named.insert(other)) {
                news(&mut standing).await;
            }
        }
    }

    async fn ask(&self, peers: &Peers, master: NodeId) -> Result<Reply> {
        let mut letter = self.letter.clone();
        let bytes = loop {
            let left = Duration::from_millis(self.within_ms).saturating_sub(since(self.began_ms));
            match peers.ask(master, self.group, letter.clone(), left).await {
                // It did nothing, because it is busy or because it has an older version; the second
                // answer distinguishes the two.
                Err(CallError::Declined(_)) if message::is_for_version(&letter) => {
                    letter = message::without_version(&letter);
                }
                answer => break answer?,
            }
        };
        message::read_answer_to(&letter, bytes).unwrap_or_else(|Malformed(field)| {
            tracing::warn!(
                target: "node",
                node = %format_args!("{:016x}", master.0),
                "an answer to a request passed on is malformed: {field}"
            );
            let text = format!(
                "node {:016x} answered what this node can't read ({field}): it may have happened; \
                 read before retrying",
                master.0
            );
            Err(Error::new(Reason::InDoubt, text))
        })
    }

    fn verdict(&self, error: &Error, master: Option<NodeId>) -> AttemptVerdict {
        match error.reason {
            Reason::NotMaster | Reason::NoQuorum => AttemptVerdict::Missed,
            // That node goes, and another becomes master; unless it is this one.
            Reason::ShuttingDown | Reason::Starting if master != Some(self.me) => {
                AttemptVerdict::Missed
            }
            _ if error.kind() == Kind::Unknown && self.repeat != Repeat::Never => {
                AttemptVerdict::InDoubt
            }
            _ => AttemptVerdict::Final,
        }
    }

    /// Returns the error for the client: at least `InDoubt`, if an earlier attempt may have been
    /// executed and the last one gave no answer.
    fn told(&self, last: Error, doubt: Option<Error>) -> Error {
        let unanswered = last.kind() == Kind::Unavailable || last.reason == Reason::SessionExpired;
        let error = match doubt {
            Some(doubt) if unanswered => doubt,
            _ => last,
        };
        if self.repeat == Repeat::Harmless && error.kind() == Kind::Unknown {
            let text = format!("the master of group {} did not answer: try again", self.group);
            return Error::new(Reason::NoQuorum, text);
        }
        // The client is not sent to a master that this node has tried in vain.
        if error.reason == Reason::NotMaster { self.no_master() } else { error }
    }

    fn no_master(&self) -> Error {
        let text = format!(
            "no master of group {} is known: a majority of its members must run and reach each \
             other (see `credenza status` of each); nothing was done, try again",
            self.group
        );
        Error::new(Reason::NoQuorum, text)
    }
}

/// Waits for the group's news, or a pause long.
async fn news(standing: &mut watch::Receiver<Leadership>) {
    if let Some(Err(_)) = timeout(PAUSE, standing.changed()).await {
        // The group is gone, and will have no news.
        sleep(PAUSE).await;
    }
}

/// Returns the time since `began_ms`.
pub(super) fn since(began_ms: u64) -> Duration {
    Duration::from_millis(world::milliseconds().saturating_sub(began_ms))
}

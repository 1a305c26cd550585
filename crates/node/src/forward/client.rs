//! Client side of forwarding: sends a request to its group's master until there is an answer, or it
//! times out.

use super::message;
use base::codec::Malformed;
use base::{
    Call, DirectoryCall, Error, GroupId, IndexCall, Kind, NodeId, Reason, Reply, Request, Result,
    RingCall,
};
use bytes::Bytes;
use replication::group::Leadership;
use runtime::world::{self, sleep, timeout};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;
use tokio::sync::watch;
use transport::{CallError, Peers};

/// Pause between two attempts, unless the group's leadership changes: a restored connection sends
/// no notification.
const PAUSE: Duration = Duration::from_millis(50);

/// Kind of retry that is safe for a request that may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryKind {
    /// No retry: the client gets the error.
    Never,
    /// The request may be sent again: its retry id makes it apply once.
    WithId,
    /// The request may be sent again: it changes nothing.
    ReadOnly,
}

impl RetryKind {
    pub(super) fn of(request: &Request) -> RetryKind {
        match &request.call {
            Call::Update(_) if request.retry.is_some() => RetryKind::WithId,
            Call::Read(..)
            | Call::Directory(
                DirectoryCall::DescribeBucket
                | DirectoryCall::ListBuckets { .. }
                | DirectoryCall::ListTypes
                | DirectoryCall::Index(IndexCall::Describe { .. } | IndexCall::List)
                | DirectoryCall::Ring(RingCall::Describe | RingCall::Plan | RingCall::Transfers),
            ) => RetryKind::ReadOnly,
            Call::Update(_) | Call::Directory(_) | Call::Session(_) | Call::Available(_) => {
                RetryKind::Never
            }
        }
    }
}

/// A forwarded request.
pub(super) struct ForwardedRequest {
    /// Id of this node.
    pub node: NodeId,
    /// Group whose master is asked.
    pub group: GroupId,
    /// The request, encoded.
    pub payload: Bytes,
    pub retry_kind: RetryKind,
    /// Time at which it was submitted, in this node's milliseconds.
    pub began_ms: u64,
    /// Timeout in milliseconds.
    pub timeout_ms: u64,
    /// Maximum wait for a known and connected master, in milliseconds.
    pub master_wait_ms: u64,
}

/// Verdict on an attempt without a reply.
enum AttemptVerdict {
    /// The client gets the error.
    Final,
    /// The request was not executed: another attempt may find the master.
    NotExecuted,
    /// The request may have been executed.
    InDoubt,
}

impl ForwardedRequest {
    /// Sends the request until there is an answer. `group` returns the group's leadership, and is
    /// called again when this replica is dismissed. `answer_locally` answers once this node has
    /// become master. `next_node` gets the node that failed, and returns the node that it named.
    pub(super) async fn run<F: Future<Output = Result<Reply>>>(
        &self,
        peers: Option<&Peers>,
        group: impl Fn() -> watch::Receiver<Leadership>,
        answer_locally: impl Fn() -> F,
        next_node: impl Fn(NodeId, &Error) -> Option<NodeId>,
    ) -> Result<Reply> {
        let mut missed_ms = None;
        let mut in_doubt: Option<Error> = None;
        let mut named_nodes = BTreeSet::new();
        let mut leadership = group();
        loop {
            // The group continues without this replica: from now on other members name the master.
            if leadership.borrow().is_removed {
                leadership = group();
            }
            let master = leadership.borrow_and_update().master;
            let answer = match (master, peers) {
                (Some(master), _) if master == self.node => answer_locally().await,
                (Some(master), Some(peers)) => self.send(peers, master).await,
                _ => Err(self.no_master()),
            };
            let error = match answer {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let verdict = self.verdict(&error, master);
            let is_retryable = !matches!(verdict, AttemptVerdict::Final);
            let named_node =
                master.filter(|_| is_retryable).and_then(|target| next_node(target, &error));
            match verdict {
                AttemptVerdict::Final => return Err(self.final_error(error, in_doubt)),
                AttemptVerdict::NotExecuted => {}
                // Kept until the end: a later refusal proves nothing about this attempt.
                AttemptVerdict::InDoubt => in_doubt = Some(error.clone()),
            }
            // A retry after a doubt may use the whole timeout: only an answer ends the doubt.
            let now_ms = world::milliseconds();
            let master_deadline_ms = *missed_ms.get_or_insert(now_ms) + self.master_wait_ms;
            let deadline_ms = self.began_ms + self.timeout_ms;
            let give_up_ms =
                if in_doubt.is_some() { deadline_ms } else { deadline_ms.min(master_deadline_ms) };
            if now_ms >= give_up_ms {
                return Err(self.final_error(error, in_doubt));
            }
            // A node that is named for the first time is tried at once.
            if named_node.is_none_or(|named_node| !named_nodes.insert(named_node)) {
                wait_for_change(&mut leadership).await;
            }
        }
    }

    async fn send(&self, peers: &Peers, master: NodeId) -> Result<Reply> {
        let mut payload = self.payload.clone();
        let bytes = loop {
            let remaining =
                Duration::from_millis(self.timeout_ms).saturating_sub(since(self.began_ms));
            match peers.call(master, self.group, payload.clone(), remaining).await {
                // Declined because it is busy or has an older version; the second answer
                // distinguishes the two.
                Err(CallError::Declined(_)) if message::is_of_later_version(&payload) => {
                    payload = message::without_version(&payload);
                }
                answer => break answer?,
            }
        };
        message::read_answer_to(&payload, bytes).unwrap_or_else(|Malformed(field)| {
            tracing::warn!(
                target: "node",
                node = %format_args!("{:016x}", master.0),
                "the answer to a forwarded request is malformed: {field}"
            );
            let text = format!(
                "the answer of node {:016x} can't be decoded ({field}): the request may have been \
                 applied; read before retrying",
                master.0
            );
            Err(Error::new(Reason::InDoubt, text))
        })
    }

    fn verdict(&self, error: &Error, master: Option<NodeId>) -> AttemptVerdict {
        match error.reason {
            Reason::NotMaster | Reason::NoQuorum => AttemptVerdict::NotExecuted,
            // That node stops, and another becomes master; unless it is this one.
            Reason::ShuttingDown | Reason::Starting if master != Some(self.node) => {
                AttemptVerdict::NotExecuted
            }
            _ if error.kind() == Kind::Unknown && self.retry_kind != RetryKind::Never => {
                AttemptVerdict::InDoubt
            }
            _ => AttemptVerdict::Final,
        }
    }

    /// Returns the error for the client: at least `InDoubt`, if an earlier attempt may have been
    /// executed and the last one gave no answer.
    fn final_error(&self, last_error: Error, in_doubt: Option<Error>) -> Error {
        let is_unanswered =
            last_error.kind() == Kind::Unavailable || last_error.reason == Reason::SessionExpired;
        let error = match in_doubt {
            Some(in_doubt) if is_unanswered => in_doubt,
            _ => last_error,
        };
        if self.retry_kind == RetryKind::ReadOnly && error.kind() == Kind::Unknown {
            let text = format!("the master of group {} did not answer: try again", self.group);
            return Error::new(Reason::NoQuorum, text);
        }
        // The client must not be sent to a master that this node could not reach.
        if error.reason == Reason::NotMaster { self.no_master() } else { error }
    }

    fn no_master(&self) -> Error {
        let text = format!(
            "no master of group {} is known: a majority of its members must run and be connected \
             to each other (see `credenza status` of each); nothing was done, try again",
            self.group
        );
        Error::new(Reason::NoQuorum, text)
    }
}

/// Waits for a change of the group's leadership, for `PAUSE` at most.
async fn wait_for_change(leadership: &mut watch::Receiver<Leadership>) {
    if let Some(Err(_)) = timeout(PAUSE, leadership.changed()).await {
        // The group was dropped: its leadership never changes again.
        sleep(PAUSE).await;
    }
}

/// Returns the time since `began_ms`.
pub(super) fn since(began_ms: u64) -> Duration {
    Duration::from_millis(world::milliseconds().saturating_sub(began_ms))
}

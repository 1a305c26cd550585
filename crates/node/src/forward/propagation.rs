//! Propagation of changes of users, roles and the switch of access: such a change is answered once
//! the connected members have applied it.
//!
//! Each node decides about its clients by its own copy of the directory. Without the wait, a user
//! that was just created would be unknown for a moment at other nodes.
//!
//! Promises: the wait is bounded; the answer is that of the change, also if a member lags: it is
//! made, and an error would have its caller make it again.
//! Never: waits for a member without a connection.

use super::client::since;
use super::message;
use crate::route::Router;
use base::limits::MASTER_WAIT_MS_MAX;
use base::{BucketName, Call, GroupId, LogIndex, NodeId, Principal, Read, ReadLevel, Request};
use bytes::Bytes;
use runtime::join_set::JoinSet;
use runtime::world::{self, sleep};
use std::time::Duration;
use transport::Peers;

/// Longest wait for the members.
const WAIT_MAX: Duration = Duration::from_millis(MASTER_WAIT_MS_MAX);
/// Pause before a member that declined, as it was too busy, is asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of members that a log event names.
const NAMES_MAX: usize = 8;

impl Router {
    /// Waits until the connected members have applied the directory up to the index of a change of
    /// access. Logs a warning if some have not in time.
    pub(super) async fn wait_access_applied(&self, index: LogIndex) {
        let lagging = self.lagging_members(index, WAIT_MAX).await;
        if !lagging.is_empty() {
            let names = lagging[..lagging.len().min(NAMES_MAX)].join(", ");
            tracing::warn!(
                target: "node", count = lagging.len(), names,
                "members have not applied a change of users, roles or access yet: until they have, \
                 they decide by the former ones"
            );
        }
    }

    /// Waits until the connected members have applied the directory up to an index, for this time
    /// at most. Returns the names of those that have not.
    pub(crate) async fn lagging_members(&self, index: LogIndex, within: Duration) -> Vec<String> {
        let links = &self.locator.links;
        let Some(peers) = links.peers.get() else { return Vec::new() };
        // A forwarded read waits for its sender's directory; so members of earlier programs can
        // answer, too. A dirty one is not cut short by the news that another node is the master.
        let read = Call::Read(Read::Exists(Vec::new()), ReadLevel::Dirty);
        let request = Request { bucket: BucketName::default(), call: read, retry: None };
        let question = message::write(index, Some(&Principal::Node), &request);
        let question = question.expect("an empty read is short");
        let (mut answers, mut asked) = (JoinSet::new(), 0);
        for member in &self.locator.catalog.cluster().members {
            if member.node == links.node || !links.is_linked(member.node) {
                continue;
            }
            let (peers, question) = (peers.clone(), question.clone());
            let (node, name) = (member.node, member.name.clone());
            asked += 1;
            answers.push(async move {
                let is_lagging = !has_applied((&peers, node), question, within).await;
                is_lagging.then_some(name)
            });
        }
        let mut lagging = Vec::new();
        for _ in 0..asked {
            lagging.extend(answers.next().await);
        }
        lagging.sort();
        lagging
    }
}

/// Returns true once a member has applied the directory that the question needs, or has lost its
/// connection; false if neither happens in time.
async fn has_applied((peers, node): (&Peers, NodeId), question: Bytes, within: Duration) -> bool {
    let began_ms = world::milliseconds();
    loop {
        let left = within.saturating_sub(since(began_ms));
        match peers.call(node, GroupId::DEFAULT, question.clone(), left).await {
            // A refusal of the read will do: the member looks at its directory first.
            Ok(_) => return true,
            Err(_) if !peers.is_linked(node) => return true,
            Err(_) if left.is_zero() => return false,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

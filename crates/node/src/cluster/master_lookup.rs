//! Leader lookup: asks other members, over the lane of calls, for the members of a group without a
//! replica here, and for the number of groups that another node leads, before it is handed one.
//!
//! ```text
//! question = 3
//! answer   = how many u32 | their ids u64 ...
//! question = 3 | 1
//! answer   = how many u32
//! question = 3 | 5
//! answer   = 1 byte: whether its disk hangs
//! ```
//! `secret.rs`, `report.rs` and `level_state.rs` have questions of their own behind the same byte.
//! Only a master that may answer reads returns its group's members; every other node declines. The
//! second question is declined by a node that is slow or full or whose disk hangs, that is about to
//! stop, or that answered another asker a moment ago, which may be handing it a group.

use super::level_state::on_level_request;
use super::view::ClusterView;
use super::{hand_over, report, secret};
use crate::levels::LevelKeeper;
use crate::member_request::MemberRequest;
use crate::settings::NodeSettings;
use base::codec::{Malformed, Reader, Writer};
use base::limits::GROUP_MEMBERS_MAX;
use base::{GroupId, NodeId, Placement};
use bytes::Bytes;
use logic::consensus::Configuration;
use metadata::catalog::Catalog;
use replica_host::{DiskHealth, Groups, Inquirer, Lifecycle, PeerLinks, ReplicaAudit};
use replication::group::Group;
use replication::read::confirm_master;
use runtime::world;
use runtime::world::timeout;
use std::sync::Arc;
use std::time::Duration;
use transport::{CallKind, IncomingCall, Peers};

/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Calls between members about members and their groups: sends them, and answers them.
pub(crate) struct MemberCalls {
    pub settings: Arc<NodeSettings>,
    pub groups: Arc<Groups>,
    pub catalog: Arc<Catalog>,
    pub links: Arc<PeerLinks>,
    pub disk: Arc<DiskHealth>,
    pub audit: Arc<ReplicaAudit>,
    pub view: Arc<ClusterView>,
    pub levels: Arc<LevelKeeper>,
    pub lifecycle: Arc<Lifecycle>,
}

/// Handles a call of another member.
pub(crate) fn on_member_call(calls: &MemberCalls, peers: &Peers, call: IncomingCall) {
    match MemberRequest::decode(&call.payload) {
        Some((MemberRequest::LedCount, _)) => answer_led_count(calls, peers, &call),
        Some((MemberRequest::Disk, _)) => {
            let hangs = calls.disk.hangs();
            let _ = peers.answer(&call, Bytes::copy_from_slice(&[u8::from(hangs)])); // As below.
        }
        Some((MemberRequest::HandOver, name)) => hand_over::on_hand_over(calls, peers, &call, name),
        Some((MemberRequest::Verify, _)) => hand_over::on_verify(calls, peers, &call),
        Some((MemberRequest::Secret, _)) => {
            secret::on_secret_request(calls.links.node, peers, &call)
        }
        Some((MemberRequest::Report, _)) => report::on_report(&calls.view, peers, &call),
        Some((MemberRequest::Level, level)) => {
            let level = Bytes::copy_from_slice(level);
            on_level_request(calls, peers, call, &level);
        }
        None => answer_members(calls, peers, call),
    }
}

/// Answers with a group's members if this node is its master; declines otherwise.
fn answer_members(calls: &MemberCalls, peers: &Peers, call: IncomingCall) {
    let Some(group) = calls.groups.get(call.group) else {
        peers.decline(&call);
        return;
    };
    if calls.settings.lease_reads {
        let configuration = group.configuration();
        return send_members(
            peers,
            &call,
            Some(configuration).filter(|_| group.leadership.can_read()),
        );
    }
    let peers = peers.clone();
    calls.lifecycle.tasks.requests.spawn_short(async move {
        let configuration = group.configuration();
        let confirmed = timeout(TIMEOUT, confirm_master(&group)).await;
        let is_master = matches!(confirmed, Some(Ok(())));
        // The configuration may have changed while a majority confirmed the mastership.
        let is_unchanged = configuration == group.configuration();
        send_members(&peers, &call, Some(configuration).filter(|_| is_master && is_unchanged));
    });
}

/// Answers with a group's members. Declines without a configuration.
fn send_members(peers: &Peers, call: &IncomingCall, configuration: Option<Configuration>) {
    let Some(configuration) = configuration else {
        peers.decline(call);
        return;
    };
    let members = configuration.members();
    let mut answer = Vec::new();
    answer.put_u32(members.len() as u32);
    members.iter().for_each(|member| answer.put_u64(member.node.0));
    // Without a connection the caller's timeout reports the failure.
    let _ = peers.answer(call, answer.into());
}

fn answer_led_count(calls: &MemberCalls, peers: &Peers, call: &IncomingCall) {
    let now = world::milliseconds();
    let mut inquirer = calls.groups.inquirer.lock().expect("no one panics while holding it");
    let busy = inquirer.is_some_and(|last| last.excludes(call.from, now));
    if busy || calls.disk.is_unfit() || calls.lifecycle.is_stopping() {
        peers.decline(call);
        return;
    }
    *inquirer = Some(Inquirer { node: call.from, answered_ms: now });
    drop(inquirer);
    let mut answer = Vec::new();
    answer.put_u32(calls.led_count() as u32);
    let _ = peers.answer(call, answer.into()); // As above.
}

impl MemberCalls {
    /// Counts the groups with buckets whose master is this node.
    pub(super) fn led_count(&self) -> usize {
        let groups = self.groups.all().into_iter();
        let leads = |group: &Arc<Group>| group.leadership.is_master();
        groups.filter(|group| group.id != GroupId::DIRECTORY && leads(group)).count()
    }

    /// Asks another node for its number of led groups. `None`: no answer, or it declined.
    pub(super) async fn ask_led_count(&self, node: NodeId) -> Option<usize> {
        let request = MemberRequest::LedCount.encode(&[]);
        let peers = self.links.peers.get()?;
        let answer = peers.call(node, GroupId::DIRECTORY, request, TIMEOUT).await.ok()?;
        let mut reader = Reader::new(&answer);
        let count = reader.u32("number of groups").ok()?;
        reader.end("number of groups").ok().map(|()| count as usize)
    }

    /// Returns true if a node reports that its disk hangs: it could not save the promise that it
    /// needs to lead.
    pub(super) async fn ask_disk_hangs(&self, node: NodeId) -> bool {
        let Some(peers) = self.links.peers.get() else { return false };
        let request = MemberRequest::Disk.encode(&[]);
        peers
            .call(node, GroupId::DIRECTORY, request, TIMEOUT)
            .await
            .is_ok_and(|answer| answer[..] == [1])
    }

    /// Asks the master of a group for its members. `None`: the master was not found.
    pub(super) async fn ask_members(&self, placement: &Placement) -> Option<Vec<NodeId>> {
        let peers = self.links.peers.get()?;
        for (node, _) in &placement.members {
            let request = Bytes::copy_from_slice(&[CallKind::Members.byte()]);
            let reply = peers.call(*node, placement.group, request, TIMEOUT).await;
            if let Some(members) = reply.ok().and_then(|answer| decode_members(&answer).ok()) {
                return Some(members);
            }
        }
        None
    }
}

pub(super) fn decode_members(answer: &[u8]) -> Result<Vec<NodeId>, Malformed> {
    let mut reader = Reader::new(answer);
    let count = reader.u32("number of members")? as usize;
    if count > GROUP_MEMBERS_MAX {
        return Err(Malformed("number of members"));
    }
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        members.push(NodeId(reader.u64("member")?));
    }
    reader.end("members").map(|()| members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_list_answer_of_wrong_length_is_rejected() {
        let mut bytes = Vec::new();
        bytes.put_u32(2);
        bytes.put_u64(7);
        bytes.put_u64(u64::MAX);
        assert_eq!(decode_members(&bytes), Ok(vec![NodeId(7), NodeId(u64::MAX)]));
        for cut in 0..bytes.len() {
            assert!(decode_members(&bytes[..cut]).is_err(), "{cut}");
        }
        bytes.push(0);
        assert_eq!(decode_members(&bytes), Err(Malformed("members")));
        assert_eq!(decode_members(&[0xFF; 4]), Err(Malformed("number of members")));
    }
}

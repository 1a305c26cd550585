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
//! `secret.rs` and `report.rs` have questions of their own behind the same byte. Only a master that
//! may answer reads returns its group's members; every other node declines. The second question is
//! declined by a node that is slow or full or whose disk hangs, that is about to stop, or that
//! answered another asker a moment ago, which may be handing it a group.

use super::question::MemberQuestion;
use super::view::ClusterView;
use super::{handing, report, secret};
use crate::audit::ReplicaAudit;
use crate::disk_health::DiskHealth;
use crate::groups::{Groups, Inquirer};
use crate::lifecycle::Lifecycle;
use crate::peer_links::PeerLinks;
use crate::settings::NodeSettings;
use base::codec::{Malformed, Reader, Writer};
use base::limits::GROUP_MEMBERS_MAX;
use base::{GroupId, NodeId, Placement};
use bytes::Bytes;
use logic::consensus::Configuration;
use metadata::catalog::Catalog;
use replication::group::Group;
use replication::read::still_master;
use runtime::world;
use runtime::world::timeout;
use std::sync::Arc;
use std::time::Duration;
use transport::{CallKind, IncomingCall, Peers};

/// Timeout of an answer.
const WITHIN: Duration = Duration::from_secs(1);

/// Time for which a node that answered one asker declines others, milliseconds.
const TOLD_MS: u64 = 1_000;

/// Calls between members about members and their groups: sends them, and answers them.
pub(crate) struct MemberCalls {
    pub settings: Arc<NodeSettings>,
    pub groups: Arc<Groups>,
    pub catalog: Arc<Catalog>,
    pub links: Arc<PeerLinks>,
    pub disk: Arc<DiskHealth>,
    pub audit: Arc<ReplicaAudit>,
    pub view: Arc<ClusterView>,
    pub lifecycle: Arc<Lifecycle>,
}

/// Answers such a question.
pub(crate) fn tell(calls: &MemberCalls, peers: &Peers, asked: IncomingCall) {
    match MemberQuestion::of(&asked.payload) {
        Some((MemberQuestion::Leads, _)) => tell_leads(calls, peers, &asked),
        Some((MemberQuestion::Disk, _)) => {
            let hangs = calls.disk.hangs();
            let _ = peers.answer(&asked, Bytes::copy_from_slice(&[u8::from(hangs)])); // As below.
        }
        Some((MemberQuestion::HandOver, name)) => handing::told(calls, peers, &asked, name),
        Some((MemberQuestion::Verify, _)) => handing::verify_told(calls, peers, &asked),
        Some((MemberQuestion::Secret, _)) => secret::tell(calls.links.node, peers, &asked),
        Some((MemberQuestion::Report, _)) => report::told(&calls.view, peers, &asked),
        None => tell_group(calls, peers, asked),
    }
}

/// Answers with a group's members, if this node is its master.
fn tell_group(calls: &MemberCalls, peers: &Peers, asked: IncomingCall) {
    let Some(group) = calls.groups.get(asked.group) else {
        peers.decline(&asked);
        return;
    };
    if calls.settings.lease_reads {
        let configuration = group.configuration();
        return tell_members(
            peers,
            &asked,
            Some(configuration).filter(|_| group.leadership.readable()),
        );
    }
    let peers = peers.clone();
    calls.lifecycle.tasks.requests.spawn_short(async move {
        let configuration = group.configuration();
        let confirmed = timeout(WITHIN, still_master(&group)).await;
        let is_master = matches!(confirmed, Some(Ok(())));
        // The configuration in force before a majority confirmed it need not be in force after.
        let same = configuration == group.configuration();
        tell_members(&peers, &asked, Some(configuration).filter(|_| is_master && same));
    });
}

/// Answers with a group's members. Declines without a configuration.
fn tell_members(peers: &Peers, asked: &IncomingCall, configuration: Option<Configuration>) {
    let Some(configuration) = configuration else {
        peers.decline(asked);
        return;
    };
    let members = configuration.members();
    let mut answer = Vec::new();
    answer.put_u32(members.len() as u32);
    members.iter().for_each(|member| answer.put_u64(member.node.0));
    // Without a link the asking node learns of the failure by itself.
    let _ = peers.answer(asked, answer.into());
}

impl Inquirer {
    /// Returns true while another asker is declined for this one: two that hand this node their
    /// groups at once would give it too many. The same asker may ask again, because it knows what
    /// it has handed over.
    fn excludes(&self, asks: NodeId, now: u64) -> bool {
        self.node != asks && now < self.at + TOLD_MS
    }
}

fn tell_leads(calls: &MemberCalls, peers: &Peers, asked: &IncomingCall) {
    let now = world::milliseconds();
    let mut inquirer = calls.groups.inquirer.lock().expect("no one panics while holding it");
    let busy = inquirer.is_some_and(|last| last.excludes(asked.from, now));
    if busy || calls.disk.is_unfit() || calls.lifecycle.is_stopping() {
        peers.decline(asked);
        return;
    }
    *inquirer = Some(Inquirer { node: asked.from, at: now });
    drop(inquirer);
    let mut answer = Vec::new();
    answer.put_u32(calls.led_here() as u32);
    let _ = peers.answer(asked, answer.into()); // As above.
}

impl MemberCalls {
    /// Counts the groups with buckets whose master is this node.
    pub(super) fn led_here(&self) -> usize {
        let groups = self.groups.all().into_iter();
        let leads = |group: &Arc<Group>| group.leadership.is_master();
        groups.filter(|group| group.id != GroupId::DIRECTORY && leads(group)).count()
    }

    /// Asks another node for the same; none: it did not say.
    pub(super) async fn led_by(&self, node: NodeId) -> Option<usize> {
        let question = MemberQuestion::Leads.call(&[]);
        let peers = self.links.peers.get()?;
        let answer = peers.ask(node, GroupId::DIRECTORY, question, WITHIN).await.ok()?;
        let mut reader = Reader::new(&answer);
        let count = reader.u32("how many groups").ok()?;
        reader.end("how many groups").ok().map(|()| count as usize)
    }

    /// Returns true if a node reports that its disk hangs: then it can't save the promise that it
    /// needs to lead.
    pub(super) async fn hangs(&self, node: NodeId) -> bool {
        let Some(peers) = self.links.peers.get() else { return false };
        let question = MemberQuestion::Disk.call(&[]);
        peers
            .ask(node, GroupId::DIRECTORY, question, WITHIN)
            .await
            .is_ok_and(|answer| answer[..] == [1])
    }

    /// Asks the master of a group for its members; none: it was not found.
    pub(super) async fn members_of(&self, placement: &Placement) -> Option<Vec<NodeId>> {
        let peers = self.links.peers.get()?;
        for (node, _) in &placement.members {
            let question = Bytes::copy_from_slice(&[CallKind::Members.byte()]);
            let asked = peers.ask(*node, placement.group, question, WITHIN).await;
            if let Some(members) = asked.ok().and_then(|answer| read(&answer).ok()) {
                return Some(members);
            }
        }
        None
    }
}

fn read(answer: &[u8]) -> Result<Vec<NodeId>, Malformed> {
    let mut reader = Reader::new(answer);
    let count = reader.u32("how many members")? as usize;
    if count > GROUP_MEMBERS_MAX {
        return Err(Malformed("how many members"));
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

    /// A master whose disk is full hands all its groups over, one look after the other.
    #[test]
    fn an_inquirer_may_ask_again_at_once_and_others_a_little_later() {
        let last = Inquirer { node: NodeId(1), at: 5_000 };
        assert!(!last.excludes(NodeId(1), 5_000) && !last.excludes(NodeId(1), 5_250));
        assert!(last.excludes(NodeId(2), 5_999) && !last.excludes(NodeId(2), 6_000));
    }

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        bytes.put_u32(2);
        bytes.put_u64(7);
        bytes.put_u64(u64::MAX);
        assert_eq!(read(&bytes), Ok(vec![NodeId(7), NodeId(u64::MAX)]));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        bytes.push(0);
        assert_eq!(read(&bytes), Err(Malformed("members")));
        assert_eq!(read(&[0xFF; 4]), Err(Malformed("how many members")));
    }
}

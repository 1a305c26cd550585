//! Settings of a node; `cli` fills them from flags, file and environment.

use base::{ClusterDescription, JoinToken, Membership, NodeId};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A node's settings. Sizes in bytes, times in milliseconds.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The data directory; made if it does not exist.
    pub data_dir: PathBuf,
    /// The node's name as clients see it.
    pub name: String,
    /// The log is collapsed to stay under this.
    pub log_bytes_max: u64,
    /// Size of one log segment.
    pub segment_bytes: u64,
    /// The store's memory: tables being filled, block cache and row cache share it.
    pub memory_bytes_max: u64,
    /// Buckets with `sync=interval` are synced this often.
    pub sync_interval_ms: u64,
    /// Writes are refused when less than this is free on the disk (or an eighth of the disk, if
    /// that is less).
    pub disk_reserve_bytes: u64,
    /// How long a master's lease lasts; the same at every member.
    pub lease_ms: u64,
    /// Whether this node, where it is master, answers reads under its lease; else each of them asks
    /// a quorum. For machines whose clocks may stand still. Whoever may become master decides for
    /// itself, so it only means something if it is the same at every member.
    pub lease_reads: bool,
    /// Names of members that are to be master rather than those behind them and all others; the
    /// same at every member.
    pub preferred_masters: Vec<String>,
    /// Name of the one member that is to be master of every group in which it votes; while it is
    /// away, nobody is. The same at every member.
    pub forced_master: Option<String>,
    /// So long one of them must be fit to lead before it is handed a group.
    pub preferred_master_delay_ms: u64,
    /// A member that is out of all groups has this long to hear of it before it is forgotten.
    pub farewell_ms: u64,
    /// Where it is master, replicas are compared so fast, in bytes a second that are read at each
    /// of them; 0: only when asked.
    pub scrub_bytes_per_second: u64,
    /// Between two such comparisons of a group.
    pub scrub_interval_ms: u64,
    /// Where it is master, a member that was away is sent what has left its memory so fast, in
    /// bytes a second, while others write; 0: as fast as it goes.
    pub catch_up_bytes_per_second: u64,
    /// When the ring of available buckets changes, this node receives at most so many bytes a
    /// second; 0: as many as come.
    pub handoff_bytes_per_second: u64,
    /// A partition that has gone over to other nodes is kept here for so long.
    pub ring_grace_ms: u64,
    /// Tombstones of available buckets stay at least so long after all members agreed on them:
    /// longer than any request, repair or hint is under way.
    pub reap_after_ms: u64,
    /// Each two copies of a partition of available buckets are compared so often; 0: never.
    pub anti_entropy_interval_ms: u64,
    /// Where the other nodes of its cluster reach this one; none: it takes no others.
    pub peers: Option<PeerPlace>,
    /// What lets nodes join a cluster that this node founds, and lets this one join another.
    pub join_token: Option<JoinToken>,
    /// Where its clients reach it, told to other nodes for redirects.
    pub client_address: String,
}

/// Where a node's peers reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPlace {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What the others dial: `host:port`.
    pub advertise: String,
}

impl Default for NodeSettings {
    fn default() -> NodeSettings {
        NodeSettings {
            data_dir: PathBuf::from("data"),
            name: "node1".into(),
            log_bytes_max: 1 << 30,
            segment_bytes: 64 << 20,
            memory_bytes_max: 640 << 20,
            sync_interval_ms: 1_000,
            disk_reserve_bytes: 64 << 20,
            lease_ms: 600,
            lease_reads: true,
            preferred_masters: Vec::new(),
            forced_master: None,
            preferred_master_delay_ms: 10_000,
            farewell_ms: 3_000,
            scrub_bytes_per_second: 8 << 20,
            scrub_interval_ms: 3_600_000,
            catch_up_bytes_per_second: 16 << 20,
            handoff_bytes_per_second: 64 << 20,
            ring_grace_ms: 10_000,
            reap_after_ms: 150_000,
            anti_entropy_interval_ms: 10_000,
            peers: None,
            join_token: None,
            client_address: String::new(),
        }
    }
}

impl NodeSettings {
    /// Returns those of the available path.
    pub(crate) fn available(&self) -> dynamo::Settings {
        dynamo::Settings {
            handoff_bytes_per_second: self.handoff_bytes_per_second,
            ring_grace_ms: self.ring_grace_ms,
            anti_entropy_interval_ms: self.anti_entropy_interval_ms,
            reap_after_ms: self.reap_after_ms,
            memory_bytes_max: self.memory_bytes_max,
        }
    }

    /// Whether it is said who is to be master.
    pub(crate) fn names_masters(&self) -> bool {
        self.forced_master.is_some() || !self.preferred_masters.is_empty()
    }

    /// Who is to be master, the best first.
    pub(crate) fn masters_among(&self, known: &ClusterDescription) -> Vec<NodeId> {
        let named = |name: &String| {
            let stays = |member: &&base::MemberDescription| member.membership == Membership::Member;
            let mut members = known.members.iter().filter(stays);
            members.find(|member| member.name == *name).map(|member| member.node)
        };
        match &self.forced_master {
            Some(forced) => named(forced).into_iter().collect(),
            None => self.preferred_masters.iter().filter_map(named).collect(),
        }
    }

    /// Who alone is to be master; 0: any voter may.
    pub(crate) fn forced_among(&self, known: &ClusterDescription) -> NodeId {
        let forced = self.forced_master.is_some().then(|| self.masters_among(known));
        forced.and_then(|masters| masters.first().copied()).unwrap_or_default()
    }
}

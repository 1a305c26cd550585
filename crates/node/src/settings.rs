//! Settings of a node; `cli` fills them from flags, file and environment.

use audit_log::AuditLimits;
use base::access::AccessBootstrap;
use base::{ClusterDescription, IpNetworks, JoinToken, Membership, NodeId};
use replica_host::{HostSettings, SCRUB_BYTES_PER_SECOND};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tls::Tls;

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
    /// Time for which voters wait for a silent master, in milliseconds; the same at every member. A
    /// lease lasts half of it.
    pub lease_ms: u64,
    /// True if this node, as master, answers reads under its lease; else each read asks a quorum.
    /// For machines whose clocks may stand still. Each master decides for itself, so the setting is
    /// only effective if it is the same at every member.
    pub lease_reads: bool,
    /// Names of preferred masters, in order of preference; the same at every member.
    pub preferred_masters: Vec<String>,
    /// Name of the only member that may be master of the groups in which it votes. While it is
    /// away, there is no master. The same at every member.
    pub forced_master: Option<String>,
    /// Time for which a preferred master must be fit to lead before it is handed a group.
    pub preferred_master_delay_ms: u64,
    /// Time that a member which is out of all groups has to learn of it before it is removed.
    pub farewell_ms: u64,
    /// Rate at which a master compares replicas, in bytes a second read at each of them. 0: only on
    /// request.
    pub scrub_bytes_per_second: u64,
    /// Time between two such comparisons of a group.
    pub scrub_interval_ms: u64,
    /// Rate at which a master sends a lagging member entries that have left memory, in bytes a
    /// second, while others write. 0: unlimited.
    pub catch_up_bytes_per_second: u64,
    /// Rate at which this node receives partitions when the ring changes, in bytes a second. 0:
    /// unlimited.
    pub handoff_bytes_per_second: u64,
    /// Time for which a partition that has gone over to other nodes is kept here.
    pub ring_grace_ms: u64,
    /// Minimum time for which tombstones of available buckets stay after all members agreed on
    /// them: longer than any request, repair or hint is under way.
    pub reap_after_ms: u64,
    /// Interval at which each two copies of a partition of available buckets are compared. 0:
    /// never.
    pub anti_entropy_interval_ms: u64,
    /// Time from which on a request is in the slow log. 0: none is.
    pub slow_ms: u64,
    /// True if requests are sampled for the list of hot keys.
    pub hot_keys: bool,
    /// Bounds of the audit log.
    pub audit_log: AuditLimits,
    /// Addresses for the other nodes of its cluster. `None`: it accepts no others.
    pub peers: Option<PeerAddresses>,
    /// TLS of connections to other nodes. `None`: they are plain.
    pub tls: Option<Arc<Tls>>,
    /// Networks within which the other nodes are.
    pub peer_networks: IpNetworks,
    /// Token that lets nodes join a cluster which this node founds, and lets this one join another.
    pub join_token: Option<JoinToken>,
    /// Users and roles that this node writes at its start, if it is the cluster's only member and
    /// the cluster has never had any.
    pub access_bootstrap: Option<AccessBootstrap>,
    /// Address for its clients, which other nodes use in redirects.
    pub client_address: String,
}

/// Addresses for a node's peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddresses {
    /// Address on which it listens.
    pub listen: SocketAddr,
    /// Address that the others dial: `host:port`.
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
            scrub_bytes_per_second: SCRUB_BYTES_PER_SECOND,
            scrub_interval_ms: 3_600_000,
            catch_up_bytes_per_second: 16 << 20,
            handoff_bytes_per_second: 64 << 20,
            ring_grace_ms: 10_000,
            reap_after_ms: 150_000,
            anti_entropy_interval_ms: 10_000,
            slow_ms: 100,
            hot_keys: true,
            audit_log: AuditLimits::default(),
            peers: None,
            tls: None,
            peer_networks: IpNetworks::default(),
            join_token: None,
            access_bootstrap: None,
            client_address: String::new(),
        }
    }
}

impl NodeSettings {
    /// Returns the settings of the available path.
    pub(crate) fn available(&self) -> dynamo::Settings {
        dynamo::Settings {
            handoff_bytes_per_second: self.handoff_bytes_per_second,
            ring_grace_ms: self.ring_grace_ms,
            anti_entropy_interval_ms: self.anti_entropy_interval_ms,
            reap_after_ms: self.reap_after_ms,
            memory_bytes_max: self.memory_bytes_max,
        }
    }

    /// Returns the settings of the replicas on this node.
    pub fn host(&self) -> HostSettings {
        HostSettings {
            data_dir: self.data_dir.clone(),
            log_bytes_max: self.log_bytes_max,
            segment_bytes: self.segment_bytes,
            memory_bytes_max: self.memory_bytes_max,
            disk_reserve_bytes: self.disk_reserve_bytes,
            lease_ms: self.lease_ms,
            lease_reads: self.lease_reads,
            scrub_bytes_per_second: self.scrub_bytes_per_second,
            scrub_interval_ms: self.scrub_interval_ms,
        }
    }

    /// Returns true if masters are set: a forced one, or preferred ones.
    pub(crate) fn has_configured_masters(&self) -> bool {
        self.forced_master.is_some() || !self.preferred_masters.is_empty()
    }

    /// Returns the desired masters, in order of preference.
    pub(crate) fn desired_masters(&self, cluster: &ClusterDescription) -> Vec<NodeId> {
        let node_named = |name: &String| {
            let is_member =
                |member: &&base::MemberDescription| member.membership == Membership::Member;
            let mut members = cluster.members.iter().filter(is_member);
            members.find(|member| member.name == *name).map(|member| member.node)
        };
        match &self.forced_master {
            Some(forced) => node_named(forced).into_iter().collect(),
            None => self.preferred_masters.iter().filter_map(node_named).collect(),
        }
    }

    /// Returns the only node that may be master. 0: any voter may.
    pub(crate) fn forced_master_id(&self, cluster: &ClusterDescription) -> NodeId {
        let forced = self.forced_master.is_some().then(|| self.desired_masters(cluster));
        forced.and_then(|masters| masters.first().copied()).unwrap_or_default()
    }
}

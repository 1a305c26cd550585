//! Join of a fresh node: it makes its id, asks a member to be added, and stores the answer. Only
//! then it may start.

use super::describe_member;
use crate::NodeSettings;
use base::{
    ClusterDescription, ClusterSecret, Error, MemberDescription, NodeId, Part, Reason, Result,
};
use replica_host::recovery::data_dir_error;
use runtime::log_writer::store_error;
use store::{DataDir, Joiner, Opening};

/// Data directory of a node that has yet to join. It stays locked until this is dropped.
pub struct PendingJoin {
    joiner: Joiner,
    /// The node as it describes itself to a member.
    pub member: MemberDescription,
    /// Part that it asks for.
    pub part: Part,
    /// Lease of masters that it is set to, milliseconds.
    pub lease_ms: u64,
}

impl PendingJoin {
    /// Returns true if no node has used this data directory yet. Blocking.
    pub fn is_fresh(settings: &NodeSettings) -> Result<bool> {
        DataDir::is_fresh(&settings.data_dir).map_err(data_dir_error)
    }

    /// Opens the data directory of a node that is to join; none: it belongs to a cluster already.
    /// Blocking.
    pub fn open(settings: &NodeSettings, part: Part) -> Result<Option<PendingJoin>> {
        let joiner = match DataDir::open_or_join(&settings.data_dir).map_err(data_dir_error)? {
            Opening::Open(_) => return Ok(None),
            Opening::Joining(joiner) => joiner,
        };
        if settings.peers.is_none() {
            let text = "a joining node needs an address for the other nodes: add --peer-listen \
                        ADDRESS";
            return Err(Error::new(Reason::Malformed, text));
        }
        let member = describe_member(settings, NodeId(joiner.node));
        Ok(Some(PendingJoin { joiner, member, part, lease_ms: settings.lease_ms }))
    }

    /// Request to a member, in the words of the directory.
    #[cfg(test)]
    pub fn call(&self) -> base::DirectoryCall {
        let PendingJoin { member, part, lease_ms, .. } = self;
        base::DirectoryCall::Cluster(base::ClusterCall::AddMember {
            member: member.clone(),
            part: *part,
            lease_ms: *lease_ms,
            level: base::FeatureLevel::HIGHEST,
        })
    }

    /// The answer: the node belongs to the cluster from here on. Blocking.
    ///
    /// `secret`: what its members greet each other with; none: the cluster has none.
    pub fn finish(
        self,
        cluster: &ClusterDescription,
        secret: Option<&ClusterSecret>,
    ) -> Result<()> {
        let own = NodeId(self.joiner.node);
        if cluster.cluster.0 == 0 || cluster.member(own).is_none() {
            let text = "the answer does not list this node as a member: try again";
            return Err(Error::new(Reason::NotSupported, text));
        }
        self.joiner.join(cluster, secret).map(|_| ()).map_err(store_error)
    }
}

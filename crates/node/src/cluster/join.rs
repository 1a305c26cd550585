//! Join of a fresh node: it makes its id, asks a member to be added, and stores the answer. Only
//! then it may start.

use super::described;
use crate::NodeSettings;
use crate::recovery::unusable;
use base::{
    ClusterDescription, ClusterSecret, Error, MemberDescription, NodeId, Part, Reason, Result,
};
use runtime::log_writer::store_error;
use store::{DataDir, Joiner, Opening};

/// A directory that has yet to join. It stays locked until this is dropped.
pub struct Joining {
    joiner: Joiner,
    /// The node as it describes itself to a member.
    pub member: MemberDescription,
    /// Part that it asks for.
    pub part: Part,
    /// Lease of masters that it is set to, milliseconds.
    pub lease_ms: u64,
}

impl Joining {
    /// Returns true if no node has used this data directory yet. Blocking.
    pub fn is_fresh(settings: &NodeSettings) -> Result<bool> {
        DataDir::is_fresh(&settings.data_dir).map_err(unusable)
    }

    /// Opens the data directory of a node that is to join; none: it belongs to a cluster already.
    /// Blocking.
    pub fn begin(settings: &NodeSettings, part: Part) -> Result<Option<Joining>> {
        let joiner = match DataDir::open_or_join(&settings.data_dir).map_err(unusable)? {
            Opening::Open(_) => return Ok(None),
            Opening::Joining(joiner) => joiner,
        };
        if settings.peers.is_none() {
            let text = "a node that joins is reached by the others: add --peer-listen ADDRESS";
            return Err(Error::new(Reason::Malformed, text));
        }
        let member = described(settings, NodeId(joiner.node));
        Ok(Some(Joining { joiner, member, part, lease_ms: settings.lease_ms }))
    }

    /// Request to a member, in the words of the directory.
    #[cfg(test)]
    pub fn call(&self) -> base::DirectoryCall {
        let Joining { member, part, lease_ms, .. } = self;
        base::DirectoryCall::Cluster(base::ClusterCall::AddMember {
            member: member.clone(),
            part: *part,
            lease_ms: *lease_ms,
        })
    }

    /// The answer: the node belongs to the cluster from here on. Blocking.
    ///
    /// `secret`: what its members greet each other with; none: the cluster has none.
    pub fn finish(self, known: &ClusterDescription, secret: Option<&ClusterSecret>) -> Result<()> {
        let own = NodeId(self.joiner.node);
        if known.cluster.0 == 0 || known.member(own).is_none() {
            let text = "the answer does not name this node among the members: try again";
            return Err(Error::new(Reason::NotSupported, text));
        }
        self.joiner.join(known, secret).map(|_| ()).map_err(store_error)
    }
}

//! The credential of a node among its peers.

use base::ClusterSecret;

/// The cluster's secret as a node uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Signs this node's greetings.
    pub secret: ClusterSecret,
    /// True: greetings without a MAC are refused. False: members may still lack the secret, and are
    /// let in without.
    pub is_required: bool,
}

impl Credential {
    /// Returns true if it is the same secret, required by now.
    pub fn is_newer_than(&self, other: &Credential) -> bool {
        self.secret == other.secret && self.is_required && !other.is_required
    }
}

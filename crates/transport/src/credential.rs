//! Credential with which a node authenticates to its peers.

use base::ClusterSecret;

/// Cluster secret, and whether peers must prove that they hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Secret that signs this node's greetings.
    pub secret: ClusterSecret,
    /// True if greetings without a MAC are refused; false while members may lack the secret, which
    /// are accepted without.
    pub is_required: bool,
}

impl Credential {
    /// Returns true if it is the same secret, and required only now.
    pub fn is_newer_than(&self, other: &Credential) -> bool {
        self.secret == other.secret && self.is_required && !other.is_required
    }
}

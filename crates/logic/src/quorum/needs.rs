//! Quorum sizes as numbers: resolves what was requested (`quorum`, `all`, 2) to a number of
//! replicas.

use base::{Quorum, Share};
use std::fmt;

/// Requested quorums of a read, with the bucket's properties filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchQuorums {
    /// Number of replicas that must answer.
    pub r: Quorum,
    /// Number of primaries among them.
    pub pr: Quorum,
    /// Number of nodes that must answer.
    pub node_confirms: u8,
    /// True if more than half of the replicas holding nothing are enough to report that.
    pub basic_quorum: bool,
    /// True if a replica that holds nothing counts towards `r`.
    pub notfound_ok: bool,
}

/// Requested quorums of a write, with the bucket's properties filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreQuorums {
    /// Number of replicas that must have taken it.
    pub w: Quorum,
    /// Number of replicas that must have synced it.
    pub dw: Quorum,
    /// Number of primaries among those.
    pub pw: Quorum,
    /// Number of nodes that must have synced it.
    pub node_confirms: u8,
}

/// Resolved quorums of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchNeeds {
    /// Number of replicas that must answer.
    pub r: u8,
    /// Number of primaries among them.
    pub pr: u8,
    /// Number of nodes that must answer.
    pub node_confirms: u8,
    /// Number of replicas holding nothing that are enough to report that. `None`: all must answer.
    pub notfound_quorum: Option<u8>,
    /// True if a replica that holds nothing counts towards `r`.
    pub notfound_ok: bool,
}

/// Resolved quorums of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreNeeds {
    /// Number of replicas that must have taken it.
    pub w: u8,
    /// Number of replicas that must have synced it.
    pub dw: u8,
    /// Number of primaries among those.
    pub pw: u8,
    /// Number of nodes that must have synced it.
    pub node_confirms: u8,
}

/// Error of a request for more replicas than a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumError {
    /// Requirements that are too high.
    pub shares: Vec<Share>,
    /// Number of copies of the bucket's keys.
    pub n: u8,
}

impl fmt::Display for QuorumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.shares.iter().map(|share| share.name()).collect();
        write!(f, "{} can't be more than n_val, which is {}", names.join(", "), self.n)
    }
}

impl FetchQuorums {
    /// Returns the numbers for a bucket of `n` copies on a ring of `nodes` nodes.
    ///
    /// If there are fewer nodes than copies, each node is a replica and `quorum` and `all` refer to
    /// those: a single node answers alone. Only `node_confirms` is never lowered: it demands
    /// different machines.
    pub fn needs(&self, n: u8, nodes: usize) -> Result<FetchNeeds, QuorumError> {
        let requested = [(Share::R, self.r), (Share::Pr, self.pr)];
        check_shares(n, &requested, self.node_confirms)?;
        let replicas = replica_count(n, nodes);
        let resolved = |quorum: Quorum| resolve(quorum, n, replicas);
        Ok(FetchNeeds {
            r: resolved(self.r).max(1),
            pr: resolved(self.pr),
            node_confirms: self.node_confirms,
            notfound_quorum: self.basic_quorum.then_some(replicas / 2 + 1),
            notfound_ok: self.notfound_ok,
        })
    }
}

impl StoreQuorums {
    /// Returns the numbers for a bucket of `n` copies on a ring of `nodes` nodes; see
    /// [`FetchQuorums::needs`]. At least one replica always syncs a write before it is reported
    /// stored.
    pub fn needs(&self, n: u8, nodes: usize) -> Result<StoreNeeds, QuorumError> {
        let requested = [(Share::W, self.w), (Share::Dw, self.dw), (Share::Pw, self.pw)];
        check_shares(n, &requested, self.node_confirms)?;
        let replicas = replica_count(n, nodes);
        let resolved = |quorum: Quorum| resolve(quorum, n, replicas);
        Ok(StoreNeeds {
            w: resolved(self.w).max(1),
            dw: resolved(self.dw).max(1),
            pw: resolved(self.pw),
            node_confirms: self.node_confirms,
        })
    }
}

/// Returns the number of replicas that can exist.
fn replica_count(n: u8, nodes: usize) -> u8 {
    n.min(u8::try_from(nodes).unwrap_or(u8::MAX)).max(1)
}

/// Resolves a quorum of `n` replicas where only `replicas` exist: a number is capped at those, a
/// word refers to them.
fn resolve(quorum: Quorum, n: u8, replicas: u8) -> u8 {
    match quorum {
        Quorum::Number(number) => number.min(n).min(replicas),
        symbol => symbol.size_for(replicas),
    }
}

fn check_shares(
    n: u8,
    requested: &[(Share, Quorum)],
    node_confirms: u8,
) -> Result<(), QuorumError> {
    let excessive = |(share, quorum): &(Share, Quorum)| (quorum.size_for(n) > n).then_some(*share);
    let mut shares: Vec<_> = requested.iter().filter_map(excessive).collect();
    if node_confirms > n {
        shares.push(Share::NodeConfirms);
    }
    if shares.is_empty() { Ok(()) } else { Err(QuorumError { shares, n }) }
}

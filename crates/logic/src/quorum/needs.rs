//! Quorum sizes as numbers: from what was asked for (`quorum`, `all`, 2) to how many replicas that
//! is.

use base::{Quorum, Share};
use std::fmt;

/// What a read asks for, the bucket's properties filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchWish {
    /// Replicas that must answer.
    pub r: Quorum,
    /// Of them primaries.
    pub pr: Quorum,
    /// Nodes that must answer.
    pub node_confirms: u8,
    /// Whether more than half that have nothing are enough to say so.
    pub basic_quorum: bool,
    /// Whether a replica that has nothing counts towards `r`.
    pub notfound_ok: bool,
}

/// What a write asks for, the bucket's properties filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreWish {
    /// Replicas that must have taken it.
    pub w: Quorum,
    /// Replicas that must have synced it.
    pub dw: Quorum,
    /// Of them primaries.
    pub pw: Quorum,
    /// Nodes that must have synced it.
    pub node_confirms: u8,
}

/// A read's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchNeeds {
    /// Replicas that must answer.
    pub r: u8,
    /// Of them primaries.
    pub pr: u8,
    /// Nodes that must answer.
    pub node_confirms: u8,
    /// So many that have nothing are enough to say so; none: all must be heard.
    pub nothing_at: Option<u8>,
    /// Whether a replica that has nothing counts towards `r`.
    pub notfound_ok: bool,
}

/// A write's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreNeeds {
    /// Replicas that must have taken it.
    pub w: u8,
    /// Replicas that must have synced it.
    pub dw: u8,
    /// Of them primaries.
    pub pw: u8,
    /// Nodes that must have synced it.
    pub node_confirms: u8,
}

/// More was asked for than a key has copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// What was too much.
    pub shares: Vec<Share>,
    /// How many copies the bucket's keys have.
    pub n: u8,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.shares.iter().map(|share| share.word()).collect();
        write!(f, "{} can't be more than n_val, which is {}", words.join(", "), self.n)
    }
}

impl FetchWish {
    /// The numbers, in a bucket of `n` copies on a ring of `nodes`.
    ///
    /// Where fewer nodes exist than copies are wanted, each node that exists is a replica and the
    /// words are of those: a single node answers alone. `node_confirms` alone is never lowered: it
    /// is what asks for different machines.
    pub fn needs(&self, n: u8, nodes: usize) -> Result<FetchNeeds, Excess> {
        let asked = [(Share::R, self.r), (Share::Pr, self.pr)];
        check(n, &asked, self.node_confirms)?;
        let replicas = replicas(n, nodes);
        let of = |wish: Quorum| lowered(wish, n, replicas);
        Ok(FetchNeeds {
            r: of(self.r).max(1),
            pr: of(self.pr),
            node_confirms: self.node_confirms,
            nothing_at: self.basic_quorum.then_some(replicas / 2 + 1),
            notfound_ok: self.notfound_ok,
        })
    }
}

impl StoreWish {
    /// The numbers, in a bucket of `n` copies on a ring of `nodes`; as for [`FetchWish::needs`].
    /// At least one replica always syncs a write before it is called stored.
    pub fn needs(&self, n: u8, nodes: usize) -> Result<StoreNeeds, Excess> {
        let asked = [(Share::W, self.w), (Share::Dw, self.dw), (Share::Pw, self.pw)];
        check(n, &asked, self.node_confirms)?;
        let replicas = replicas(n, nodes);
        let of = |wish: Quorum| lowered(wish, n, replicas);
        Ok(StoreNeeds {
            w: of(self.w).max(1),
            dw: of(self.dw).max(1),
            pw: of(self.pw),
            node_confirms: self.node_confirms,
        })
    }
}

/// How many replicas there can be.
fn replicas(n: u8, nodes: usize) -> u8 {
    n.min(u8::try_from(nodes).unwrap_or(u8::MAX)).max(1)
}

/// A number was meant of `n` replicas; where fewer exist, it is at most those. The words are of
/// those that exist.
fn lowered(wish: Quorum, n: u8, replicas: u8) -> u8 {
    match wish {
        Quorum::Number(number) => number.min(n).min(replicas),
        word => word.of(replicas),
    }
}

fn check(n: u8, asked: &[(Share, Quorum)], node_confirms: u8) -> Result<(), Excess> {
    let excessive = |(share, wish): &(Share, Quorum)| (wish.of(n) > n).then_some(*share);
    let mut shares: Vec<_> = asked.iter().filter_map(excessive).collect();
    if node_confirms > n {
        shares.push(Share::NodeConfirms);
    }
    if shares.is_empty() { Ok(()) } else { Err(Excess { shares, n }) }
}

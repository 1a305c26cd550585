//! The three kinds of clock under study, behind one trait.
//!
//! Promises: a kind decides from nothing but its own clocks which values a replica keeps; the true
//! result is the subject of `truth.rs`.
//! Never: is used by the database, apart from `sets.rs`, which is the database's own.
//! Read next: `vectors.rs`, `dotted.rs`, `sets.rs`.

mod dotted;
mod sets;
mod vectors;

pub use dotted::Dotted;
pub use sets::Sets;
pub use vectors::{Pruning, Vectors};

use base::{Actor, NodeId};

/// Number of a write among all writes of its key, from 1. It stands for the value.
pub type Write = u32;

/// Bytes of a clock's entry as an Erlang term, besides its id: the rule of thumb behind the
/// published sizes.
pub const TERM_BYTES: usize = 16;
/// Bytes of a client's id in such a term.
pub const CLIENT_ID_BYTES: usize = 4;
/// Bytes of a server's id in such a term.
pub const SERVER_ID_BYTES: usize = 16;

/// Author and time of a write.
#[derive(Clone, Copy, Debug)]
pub struct DvvWriter {
    /// The client.
    pub client: u32,
    /// Clock time of the node that applied the write, milliseconds.
    pub now_ms: u64,
}

/// A kind of clock.
pub trait ClockKind {
    /// Name in tables.
    const NAME: &'static str;
    /// True if a write is a dot that a replica mints, so that a replica must coordinate it.
    const MINTED: bool;
    /// Row of a key at a replica.
    type Row: Clone + Default + PartialEq;
    /// Context that a client received from a read and sends with its write.
    type Context: Clone + Default;
    /// Counter that a node mints dots of one partition from.
    type Vnode;

    /// Returns node `node`'s part of a partition.
    fn vnode(node: usize, partition: u32) -> Self::Vnode;

    /// Applies a client's write at one replica; returns the new row.
    fn write(
        &self,
        vnode: &mut Self::Vnode,
        local: &Self::Row,
        context: &Self::Context,
        write: Write,
        writer: DvvWriter,
    ) -> Self::Row;

    /// Merges the rows of two replicas.
    fn merge(&self, one: &Self::Row, other: &Self::Row) -> Self::Row;

    /// Returns the context of a client that was shown this row.
    fn context(row: &Self::Row) -> Self::Context;

    /// Returns the values, ascending.
    fn values(row: &Self::Row) -> Vec<Write>;

    /// Returns the bytes of the clocks of all its values as Erlang terms.
    fn term_bytes(row: &Self::Row) -> usize;

    /// Returns the bytes of the same clocks in the most compact form of this program.
    fn coded_bytes(row: &Self::Row) -> usize;
}

/// Returns a node's id, as random as a real one's.
pub(super) fn actor(node: usize, partition: u32) -> Actor {
    let id = (node as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Actor { node: NodeId(id), vnode: partition, incarnation: 1 }
}

//! Anti-entropy: finds what differs between two copies of a partition by hash trees and their
//! comparison.
//!
//! Each row (a key and the bytes of what lies under it) has a digest. A row falls into one of
//! 65,536 *leaves* by the hash of its key, and every node of the tree is the sum of the digests
//! below it. A sum forgets the order in which rows came, so a write changes the tree by one
//! subtraction and one addition, whatever else lies in the leaf, and a tree kept up to date equals
//! one built from scratch.
//!
//! Two copies compare their roots; where they differ, the sixteen sums below; and so down to the
//! leaves, whose rows are then compared one by one. Equal copies exchange one question and one
//! answer; unequal ones bytes in proportion to what differs.
//!
//! Promises: when an exchange is complete, every row that differed from its beginning to its end
//! was named, unless two different sums agree by chance (2^-64 for each one compared); bytes and
//! memory of a step are bounded; an exchange ends whatever the other side answers.
//! Never: reads or repairs a row (effects say which); keeps rows; decides who is right (merging
//! does).
//! Read next: `tree.rs`, then `exchange.rs`; `tests/exchange.rs` counts the bytes.

mod exchange;
mod tree;
mod wire;

pub use exchange::{Effect, Event, Exchange, RowDigest, Side, Summary};
pub use tree::{HashTree, LEAVES, Leaf, RowHash, leaf_of, row_hash};
pub use wire::{
    LEAVES_PER_PAGE_MAX, NODES_PER_QUESTION_MAX, ROWS_PER_PAGE_MAX, SyncAnswer, SyncQuestion,
};

#[cfg(test)]
mod tests;

//! Anti-entropy: finds what differs between two copies of a partition by hash trees and their
//! comparison.
//!
//! Each row (a key and the bytes under it) has a digest. A row falls into one of 65,536 *leaves* by
//! the hash of its key, and every node of the tree is the sum of the digests below it. A sum
//! ignores the order in which rows came. So a write changes the tree by one subtraction and one
//! addition, whatever else is in the leaf, and a tree kept up to date equals one built from
//! scratch.
//!
//! Two copies compare their roots; where they differ, the sixteen sums below; and so on down to the
//! leaves, whose rows are then compared one by one. Equal copies exchange one question and one
//! answer; unequal ones exchange bytes in proportion to the differences.
//!
//! Promises: a complete exchange has reported every row that differed from its beginning to its
//! end, unless two different sums collide (2^-64 for each comparison); bytes and memory of a step
//! are bounded; an exchange ends whatever the other side answers.
//! Never: reads or repairs a row (effects say which); stores rows; decides which side is right
//! (merging does).
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

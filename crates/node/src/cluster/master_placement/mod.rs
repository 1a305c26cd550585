//! Policies of master placement: each chooses the node to which a master hands a group over. The
//! reconciliation loop applies them at every check.
//!
//! Promises: a group goes only to a voter that is connected and near, and not while its members
//! change. The policies know no clock, network or disk: callers pass what they observe.
//! Never: hands over by itself; delays an election.
//! Read next: `preferred.rs` (an operator's order), `slow.rs` and `full.rs` (this node's disk),
//! `spread.rs` (the same number of groups on every node), then `../reconcile.rs`.

pub(super) mod full;
pub(super) mod preferred;
pub(super) mod slow;
pub(super) mod spread;

//! Users, roles, tokens, quotas and the switch of access in the directory: rows of group 0, and
//! each node's compiled copy of them.
//!
//! Promises: every change raises the version of the access rows in the same step, as its last row,
//! so that rights that were looked up for an older version are looked up again; a row that can't be
//! read grants nothing.
//! Never: keeps a password or a token: only their hash and digest. Decides about a request (the
//! node does).
//! Read next: `rows.rs`, `table.rs`, then `plan.rs`.

mod plan;
pub(crate) mod rows;
mod table;

pub use table::AccessTable;

/// Prefixes of all access rows, in the order in which a starting node reads them: the switch is
/// last.
pub(crate) const PREFIXES: [&[u8]; 5] =
    [rows::USERS, rows::ROLES, rows::API_TOKENS, rows::QUOTAS, rows::ACCESS];

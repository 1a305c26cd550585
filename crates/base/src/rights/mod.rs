//! Table of rights: what each request, and each act of operators, needs; and whether grants cover
//! it.
//!
//! It is the only place that says what an operation is to an authorization: front-ends and nodes
//! ask it. The matches have no wildcard, so an operation without needs does not compile.
//!
//! Promises: a request's needs name every key and range that it reads or changes, those of nested
//! steps too; whatever answers a previous value needs `read`.
//! Never: knows users (that is the node); looks at stored rows: needs follow from the request
//! alone.
//! Read next: `need.rs`, `requests.rs`, `updates.rs`, `operate.rs`, then `compiled.rs`;
//! `operations.rs` has the names of all operations, for the audit log, and `audit_class.rs` says
//! which of them it records.

mod audit_class;
mod compiled;
mod directory;
mod need;
mod operate;
mod operations;
mod requests;
mod updates;

#[cfg(test)]
mod tests;

pub use audit_class::AuditClass;
pub use compiled::Rights;
pub use need::{KeySet, Need, NeedVisitor};
pub use operate::Operate;

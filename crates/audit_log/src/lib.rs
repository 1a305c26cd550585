//! Audit log: who did what, from where and with which outcome, as lines of JSON in files of bounded
//! number and size.
//!
//! Each line has the hash of the line before and its own (BLAKE3), over all files: [`verify`] finds
//! a line that was changed, moved, or taken out between two others. A crash leaves a torn last line
//! at most; the next start leaves it where it is, and reports it in its first line.
//!
//! Promises: a line that was written whole is never changed; what [`AuditTrail::confirm`] has
//! confirmed is on disk; refusals that strangers can provoke take a bounded number of lines.
//! Never: knows a server, a node or a request; gets a value, a password or a token; waits on the
//! thread of a request.
//! Read next: `line.rs`, `writer.rs`, `verify.rs`, then `trail.rs`.

mod body;
mod chain;
mod flood;
mod folder;
mod follower;
mod key_digests;
mod line;
mod record;
mod trail;
mod trail_output;
mod trail_queue;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use chain::{ChainHead, TornTail};
pub use follower::AuditFollower;
pub use key_digests::KeyDigests;
pub use record::{AuditOutcome, AuditRecord, KEYS_MAX};
pub use trail::{AuditTrail, FloodKind};
pub use verify::{AuditReport, BrokenLine, verify};
pub use writer::AuditLimits;

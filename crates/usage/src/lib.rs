//! Use of a node by its callers: what the clients of each user take, against its quota; which keys
//! most requests concern; which requests were slow.
//!
//! Knows requests, replies and the quotas of the directory. It knows no group and no way of a
//! request: `node` asks before it evaluates one, and reports what came of it.
//!
//! Promises: memory is bounded, whatever clients send; a request that is refused has taken nothing.
//! Never: evaluates or forwards a request; ends a connection; logs a key.
//! Read next: `quotas/mod.rs`, `hot_keys/mod.rs`, `slow_log.rs`.

mod call_key;
mod hot_keys;
mod key_digest;
mod quotas;
mod slow_log;

pub use call_key::call_key;
pub use hot_keys::{ConcentratedAccess, HotKey, HotKeys, KeyAccess};
pub use key_digest::KeyFingerprint;
pub use quotas::{
    ConnectionPlace, MeteredRequest, Metering, UserMeter, UserMeters, UserUse, meter_request,
};
pub use slow_log::{SlowEntry, SlowLog, SlowRequest, SlowStages};

//! Front-ends of the client protocols, one folder each; they only translate.
//!
//! One port, many protocols: `listener/` detects the protocol of a connection by its first bytes
//! and passes the connection to that protocol's front-end.
//!
//! Promises: every front-end enforces the limits of `base::limits` before it allocates.
//! Never: imports `logic` or `store`; keeps state beyond a connection (except counters); does more
//! than translate.
//! Read next: `listener/mod.rs`, then `native/mod.rs`, `resp/mod.rs`, `arakoon/mod.rs` and
//! `riak/mod.rs`.

mod access_control;
pub mod arakoon;
mod buffer_budget;
mod clock;
mod connection;
mod connection_limits;
mod contexts;
mod counters;
mod creation_quota;
mod feed_reader;
mod handshake_limits;
mod http_input;
mod idle;
mod listener;
mod live_settings;
mod log_levels;
mod login;
mod minute;
pub mod native;
mod read_buffer;
pub mod resp;
pub mod riak;
mod settings;
mod shared;
mod slow;
mod stages;
mod strict_json;
mod typed;
mod wiping;
mod writer;

use http_message as http;

pub use connection::{Connection, Shutdown};
pub use counters::{ClientProtocol, Counters, OperationKind, Verdict};
pub use listener::{BoundPorts, ClusterlessFlag, FrontEnds};
pub use live_settings::{LiveSettings, Reload};
pub use log_levels::LogLevels;
pub use login::hash_password;
pub use settings::ServerSettings;
pub use shared::Shared;

#[cfg(test)]
mod tests;

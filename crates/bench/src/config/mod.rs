//! What a run shall do: TOML with Basho Bench's names where it has them.
//!
//! A port of an old config replaces braces by brackets and atoms by strings: `{int_to_str,
//! {uniform_int, 9}}` becomes `["int_to_str", ["uniform_int", 9]]`.
//!
//! Promises: an error names file, line, key and what is wanted; an unknown key is an error.
//! Never: reads the environment or a file that was not named.
//! Read next: `items.rs`, then `run.rs`.

mod drivers;
mod items;
mod run;
mod terms;
#[cfg(test)]
mod tests;

#[cfg(feature = "etcd")]
pub use drivers::EtcdConfig;
pub use drivers::{DriverConfig, EmbeddedConfig, HttpConfig, RespConfig};
pub use items::{Item, Items};
pub use run::{Config, Mode, Operation, Schedule, Weighted};
pub use terms::duration_of;

//! Settings of a run: TOML, with Basho Bench's names where it has them.
//!
//! A config of Basho Bench is read as it is (`erlang.rs`, `basho_bench.rs`); in TOML its braces are
//! brackets and its atoms texts: `{int_to_str, {uniform_int, 9}}` is
//! `["int_to_str", ["uniform_int", 9]]`.
//!
//! Promises: an error names file, line, key and what is wanted; an unknown key is an error.
//! Never: reads the environment or a file that was not named.
//! Read next: `items.rs`, then `run.rs`.

mod basho_bench;
mod drivers;
mod erlang;
mod generators;
mod items;
mod mixes;
mod run;
mod terms;
#[cfg(test)]
mod tests;

pub use basho_bench::from_terms as convert_terms;
#[cfg(feature = "etcd")]
pub use drivers::EtcdConfig;
pub use drivers::{
    ArakoonConfig, CouchDbConfig, DriverConfig, EmbeddedConfig, HttpConfig, RespConfig, RiakConfig,
};
pub use erlang::{is_erlang, read as read_erlang};
pub use items::{Item, Items, TomlValue};
pub use mixes::named as named_mix;
pub use run::{Config, Mode, Operation, Schedule, Weighted};
pub use terms::duration_of;

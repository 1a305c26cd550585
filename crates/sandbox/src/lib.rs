//! Engines that run users' functions: WebAssembly and JavaScript, within limits.
//!
//! A *function* is an entry of a module. [`Engines::call`] runs it once, to its end; the verbs by
//! which it reads and writes are those of a [`FunctionHost`]. A [`Script`] is one anonymous
//! function without a database, for maps and reductions. [`FunctionPack::check`] says what an
//! upload offers.
//!
//! Promises: each call has an instance or a realm of its own; equal calls on equal hosts have
//! equal answers and use equal fuel; every resource has a limit, and an error names the one that
//! was reached; an error of the host ends the call, and no function can catch it.
//! Never: touches a file or a socket; reads a clock or draws random numbers; starts a thread;
//! undoes what a function wrote, which its caller does.
//! Read next: `host.rs` (what a function sees), `engines.rs`, `session.rs` (the verbs, counted
//! and charged), then `wasm/mod.rs` and `javascript/mod.rs`.

pub mod limits;

mod code;
mod cursor;
mod engines;
mod error;
mod host;
mod javascript;
mod pack;
mod session;
mod wasm;

pub use code::{CodeHash, CodeKind, FunctionCode};
pub use cursor::{
    RANGE_HIGH_INCLUSIVE, RANGE_KEYS, RANGE_LOW_EXCLUSIVE, RANGE_REVERSE, RANGE_UNBOUNDED,
};
pub use engines::{Engines, FunctionCall, FunctionOutput};
pub use error::{CallFailure, CallUsage, FunctionError, HostError};
pub use host::{CallMode, FunctionHost, IndexSpan, PageRow, RequestName, RowPage, RowSpan};
pub use javascript::{Script, ScriptLimits};
pub use limits::{CallLimits, FunctionLimit};
pub use pack::{FunctionPack, PackError};

#[cfg(test)]
mod tests;

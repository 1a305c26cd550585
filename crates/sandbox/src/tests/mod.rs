//! Tests of the engines.

mod host_calls;
mod hostile;
mod javascript;
mod limits;
mod packs;
mod scripts;
mod support;
mod wasm;

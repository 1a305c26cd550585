//! WebAssembly: modules compiled and run by an interpreter.
//!
//! Promises: a call has an instance of its own; equal calls on equal hosts use equal fuel; floats
//! are canonical; a module's memory, tables, stack and recursion are bounded.
//! Never: offers WASI, SIMD, threads or 64-bit memories; generates machine code.
//! Read next: `engine.rs`, then `imports.rs` (the ABI).

mod engine;
mod guest;
mod imports;

pub(crate) use engine::{WasmEngine, entries};
pub(crate) use imports::{ABI_NAME, READING_VERBS, WRITING_VERBS};

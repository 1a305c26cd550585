//! What the load is made of: chance, keys and values.
//!
//! Promises: one seed and one client number give the same keys and values for ever, on every
//! machine.
//! Never: reads a clock or asks the system for chance.
//! Read next: `keys.rs`, then `values.rs`.

mod dice;
mod keys;
mod sealed;
#[cfg(test)]
mod tests;
mod values;

pub use dice::Dice;
pub use keys::{KeyGenerator, KeyStream, Numbers, Shape};
pub use sealed::{SEAL_BYTES, seal, sealed_for};
pub use values::{Blob, ValueGenerator};

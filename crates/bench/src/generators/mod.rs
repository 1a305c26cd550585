//! Generators of the load: random numbers, keys and values.
//!
//! Promises: one seed and one client number give the same keys and values for ever, on every
//! machine.
//! Never: reads a clock or asks the system for chance.
//! Read next: `keys.rs`, `recipes.rs`, then `values.rs`.

mod dice;
mod format;
mod keys;
mod recipes;
mod sealed;
#[cfg(test)]
mod tests;
mod values;

pub use dice::Dice;
pub use format::Format;
pub use keys::{KeyShape, KeyStream, Numbers};
pub use recipes::{ClientKeys, Digest, DrawnKey, KeyGenerator, Lines};
pub use sealed::{SEAL_BYTES, seal, sealed_for};
pub use values::{Blob, ValueGenerator};

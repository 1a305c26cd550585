//! Generators of the load: random numbers, keys and values.
//!
//! Promises: one seed and one client number give the same keys and values for ever, on every
//! machine.
//! Never: reads a clock or asks the system for chance.
//! Read next: `keys.rs`, `key_generator.rs`, then `values.rs`.

mod format;
mod key_generator;
mod keys;
mod sealed;
mod seeded_rng;
#[cfg(test)]
mod tests;
mod values;

pub use format::Format;
pub use key_generator::{ClientKeys, Digest, DrawnKey, KeyGenerator, Lines};
pub use keys::{KeyShape, KeyStream, Numbers};
pub use sealed::{SEAL_BYTES, is_sealed_for, seal};
pub use seeded_rng::SeededRng;
pub use values::{Blob, ValueGenerator};

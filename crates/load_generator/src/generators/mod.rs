//! Generators of the load: random numbers, keys and values.
//!
//! Promises: one seed and one client number give the same keys and values for ever, on every
//! machine.
//! Never: reads a clock or asks the system for chance.
//! Read next: `keys.rs`, `key_generator.rs`, then `values.rs`.

mod coupons;
mod format;
mod key_generator;
mod keys;
mod sealed;
mod seeded_rng;
#[cfg(test)]
mod tests;
mod values;

pub use coupons::{
    COUNT_MEMBER, COUNTS, CouponSet, DOCUMENT_BYTES_MAX, DOCUMENTS_MAX, LOW_COUNTS, write_coupon,
    write_coupon_key,
};
pub use format::Format;
pub use key_generator::{ClientKeys, Digest, DrawnKey, KeyGenerator, Lines};
pub use keys::{KeyShape, KeyStream, Numbers};
pub use sealed::{SEAL_BYTES, is_sealed_for, seal};
pub use seeded_rng::SeededRng;
pub use values::{Blob, ValueGenerator};

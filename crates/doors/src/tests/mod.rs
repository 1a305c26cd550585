//! What the tests of several doors share.

mod closing;
mod dates;
pub mod house;

//! What the tests of several doors share.

mod closing;
pub mod house;

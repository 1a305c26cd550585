//! What the tests of several doors share.

pub mod house;

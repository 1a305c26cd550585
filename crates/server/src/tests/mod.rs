//! What the tests of several front-ends share.

mod closing;
mod dates;
pub mod house;

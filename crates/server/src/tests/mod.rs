//! Test server and tests that several front-ends share.

mod access;
mod closing;
mod counted;
mod dates;
mod memory;
mod operators;
pub mod test_server;

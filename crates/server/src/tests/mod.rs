//! Test server and tests that several front-ends share.

mod closing;
mod dates;
pub mod test_server;

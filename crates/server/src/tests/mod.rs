//! Test server and tests that several front-ends share.

mod access;
mod audit;
mod closing;
mod counted;
mod dates;
mod health;
mod memory;
mod operators;
mod slow;
pub mod test_server;
mod tls_listeners;

//! Test server and tests that several front-ends share.

mod access;
mod audit;
mod bucket_audit;
mod certificates;
mod closing;
mod confirmations;
mod counted;
mod dates;
mod exposure;
mod health;
mod hot;
mod memory;
mod operators;
mod quotas;
mod slow;
pub mod test_server;
pub mod tls_listeners;

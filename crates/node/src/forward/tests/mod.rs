//! Forwarded requests: the asking side with scripted masters, the answering side with a real node
//! and arbitrary bytes.

mod client;
mod fakes;
mod messages;
mod server;
mod stores;

//! Laws and stories of the transport, and tests of links over real sockets on loopback.

mod activity;
mod calls;
mod encrypted;
mod frames;
mod golden;
mod greetings;
mod handlers;
mod hostile;
mod incarnations;
mod links;
mod proofs;
mod races;
mod stories;
mod test_peer;
mod turns;
mod versions;

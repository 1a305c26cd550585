//! Laws and stories of the transport, and tests of links over real sockets on loopback.

mod calls;
mod frames;
mod golden;
mod greetings;
mod hostile;
mod house;
mod links;
mod lives;
mod proofs;
mod races;
mod stories;

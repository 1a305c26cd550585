//! Tests of handshakes over real sockets, of reloads, and of the authority.

mod authority;
mod handshakes;
mod reloads;
mod test_files;

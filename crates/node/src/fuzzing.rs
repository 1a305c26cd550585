//! Fuzzing: what must hold of what nodes say to each other about members and moves, whatever the
//! bytes are. Only the crate `fuzz` builds this.

use super::{cluster, forward};
use bytes::Bytes;

/// Decodes bytes as one of several kinds of messages.
pub fn message(kind: u8, bytes: &Bytes) {
    match kind % 4 {
        0 => bucket_moves::fuzzing::request(bytes),
        1 => bucket_moves::fuzzing::reply(bytes),
        2 => forward::fuzzing::request(bytes),
        _ => cluster::fuzzing::answers(bytes),
    }
}

//! Fuzzing: what must hold of messages about moves of buckets. Only the crate `fuzz` builds this.

use crate::intake::BucketIntake;
use crate::message::{MoveReply, MoveRequest};
use bytes::Bytes;

/// Decodes a request, and the bytes as the progress of an intake.
pub fn request(bytes: &Bytes) {
    if let Ok(request) = MoveRequest::read(bytes) {
        assert_eq!(MoveRequest::read(&request.write()), Ok(request));
    }
    if let Ok(intake) = BucketIntake::read(bytes) {
        assert_eq!(BucketIntake::read(&intake.write()), Ok(intake));
    }
}

/// Decodes a reply.
pub fn reply(bytes: &Bytes) {
    let Ok(reply) = MoveReply::read(bytes) else { return };
    assert_eq!(MoveReply::read(&reply.write()), Ok(reply));
}

//! Fuzzing: what must hold of forwarded requests and their answers. Only the crate `fuzz` builds
//! this.

use super::message;
use base::Reason;
use bytes::Bytes;

/// Decodes a forwarded request, and the bytes as its answer.
pub(crate) fn request(bytes: &Bytes) {
    let Ok((directory, principal, request)) = message::read(bytes) else { return };
    match message::write(directory, principal.as_ref(), &request) {
        Ok(again) => {
            let again = message::read(&again).expect("what was written can be read");
            assert_eq!(format!("{again:?}"), format!("{:?}", (directory, principal, request)));
        }
        Err(error) => assert_eq!(error.reason, Reason::TooLarge),
    }
    let _ = message::read_answer_to(bytes, bytes.slice(1..));
}

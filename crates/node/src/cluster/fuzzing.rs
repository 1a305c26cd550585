//! Fuzzing: what must hold of answers about members. Only the crate `fuzz` builds this.

use super::master_lookup::decode_members;
use super::report;
use crate::member_request::MemberRequest;
use bytes::Bytes;

/// Decodes the answers of other nodes, and a request.
pub(crate) fn answers(bytes: &Bytes) {
    let _ = (decode_members(bytes), report::read(bytes));
    if let Some((request, payload)) = MemberRequest::decode(bytes) {
        let again = request.encode(payload);
        assert_eq!(MemberRequest::decode(&again), Some((request, payload)));
    }
}

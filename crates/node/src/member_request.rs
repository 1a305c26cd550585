//! Kinds of questions of nodes about members: the second byte of a call.

use bytes::Bytes;
use transport::CallKind;

/// Kind of a request to a member. A call without a second byte asks for the members of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MemberRequest {
    /// Number of groups whose master the node is.
    LedCount = 1,
    /// Handover of a group's mastership; followed by the name of the next master.
    HandOver = 2,
    /// Comparison of a group's replicas, now.
    Verify = 3,
    /// Report of the node for an operator.
    Report = 4,
    /// State of the disk: true if it hangs.
    Disk = 5,
    /// Proof that the node has stored the cluster's secret.
    Secret = 6,
    /// Mark of the data directory with a feature level; followed by the level (`levels.rs`).
    Level = 7,
}

impl MemberRequest {
    const ALL: [MemberRequest; 7] = [
        MemberRequest::LedCount,
        MemberRequest::HandOver,
        MemberRequest::Verify,
        MemberRequest::Report,
        MemberRequest::Disk,
        MemberRequest::Secret,
        MemberRequest::Level,
    ];

    /// Encodes the request; `payload` follows the kind.
    pub(crate) fn encode(self, payload: &[u8]) -> Bytes {
        [&[CallKind::Members.byte(), self as u8], payload].concat().into()
    }

    /// Decodes the kind of a request and its payload. `None`: the call asks for the group's
    /// members.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(MemberRequest, &[u8])> {
        let (kind, payload) = bytes.get(1..)?.split_first()?;
        let request = MemberRequest::ALL.into_iter().find(|request| *request as u8 == *kind)?;
        Some((request, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_question_round_trips_under_its_wire_number() {
        for (number, request) in (1..).zip(MemberRequest::ALL) {
            let bytes = request.encode(b"n2");
            assert_eq!(bytes[..], [3, number, b'n', b'2']);
            assert_eq!(MemberRequest::decode(&bytes), Some((request, &b"n2"[..])));
        }
        for members in [&[3][..], &[3, 0], &[3, 8], &[]] {
            assert_eq!(MemberRequest::decode(members), None, "{members:?}");
        }
    }
}

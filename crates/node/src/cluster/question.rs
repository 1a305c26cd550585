//! Kinds of questions of nodes about members: the second byte of a call.

use bytes::Bytes;
use transport::CallKind;

/// Subject of a question. A call without a second byte asks for the members of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum MemberQuestion {
    /// Number of groups whose master the node is.
    Leads = 1,
    /// Handover of a group's mastership; the name of the node that is to have it follows.
    HandOver = 2,
    /// Comparison of a group's replicas, now.
    Verify = 3,
    /// Report of the node for an operator.
    Report = 4,
    /// State of the disk: does it hang?
    Disk = 5,
    /// The cluster's secret: does the node hold it?
    Secret = 6,
}

impl MemberQuestion {
    const ALL: [MemberQuestion; 6] = [
        MemberQuestion::Leads,
        MemberQuestion::HandOver,
        MemberQuestion::Verify,
        MemberQuestion::Report,
        MemberQuestion::Disk,
        MemberQuestion::Secret,
    ];

    /// Encodes the call; `behind`: what follows the question.
    pub(super) fn call(self, behind: &[u8]) -> Bytes {
        [&[CallKind::Members.byte(), self as u8], behind].concat().into()
    }

    /// Splits a call into its question and what follows; none: it asks for the group's members.
    pub(super) fn of(call: &[u8]) -> Option<(MemberQuestion, &[u8])> {
        let (second, behind) = call.get(1..)?.split_first()?;
        let known = MemberQuestion::ALL.into_iter().find(|one| *one as u8 == *second)?;
        Some((known, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reads_back_under_the_number_that_older_nodes_know() {
        for (number, question) in (1..).zip(MemberQuestion::ALL) {
            let call = question.call(b"n2");
            assert_eq!(call[..], [3, number, b'n', b'2']);
            assert_eq!(MemberQuestion::of(&call), Some((question, &b"n2"[..])));
        }
        for members in [&[3][..], &[3, 0], &[3, 7], &[]] {
            assert_eq!(MemberQuestion::of(members), None, "{members:?}");
        }
    }
}

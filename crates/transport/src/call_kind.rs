//! Kinds of calls between nodes: the first byte of a call's payload selects its handler.

/// Kind of a call. Every number ever used is listed; a node declines numbers that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CallKind {
    /// Client request that another node forwards.
    Request = 1,
    /// Snapshots of groups.
    Snapshots = 2,
    /// Members of groups, masters, disks, reports.
    Members = 3,
    /// Comparison of a group's replicas.
    Comparison = 7,
    /// Moves of buckets between groups.
    Moves = 8,
    /// Forwarded client request whose answer begins with the row's version.
    RequestForVersion = 9,
    /// Forwarded client request with the principal that it is made for.
    RequestOfPrincipal = 10,
    /// Rows of available buckets.
    Vnodes = 16,
}

impl CallKind {
    const ALL: [CallKind; 8] = [
        CallKind::Request,
        CallKind::Snapshots,
        CallKind::Members,
        CallKind::Comparison,
        CallKind::Moves,
        CallKind::RequestForVersion,
        CallKind::RequestOfPrincipal,
        CallKind::Vnodes,
    ];

    /// Returns the first byte of a payload of this kind.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Returns the kind of a payload. `None`: it is empty, or of a kind that this node does not
    /// know.
    pub fn from_payload(payload: &[u8]) -> Option<CallKind> {
        let first = payload.first()?;
        CallKind::ALL.into_iter().find(|kind| kind.byte() == *first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_kind_is_decoded_from_the_first_payload_byte() {
        for kind in CallKind::ALL {
            assert_eq!(CallKind::from_payload(&[kind.byte(), 0]), Some(kind));
        }
        let known = (0..=u8::MAX).filter(|byte| CallKind::from_payload(&[*byte]).is_some());
        assert_eq!(
            known.collect::<Vec<_>>(),
            [1, 2, 3, 7, 8, 9, 10, 16],
            "as older nodes know them"
        );
        assert_eq!(CallKind::from_payload(&[]), None);
    }
}

//! Last admitted incarnation of each member: its number is in the member's row, and its token, if
//! it has one, in a row of its own. A node that does not know the recorded incarnation runs on an
//! old copy of its directory (`docs/inside/peers.md`).
//!
//! Promises: unless a member is alone, only a later incarnation replaces the recorded one; none
//! below the recorded number is ever recorded.

use super::draft::Draft;
use super::rows::{INCARNATIONS, ROW_VERSION, bad_row, check_version, member_key, set};
use super::{CallPlan, Directory};
use base::codec::{Reader, Writer};
use base::request::OnMissing;
use base::{Body, IncarnationId, Key, MemberDescription, NodeId, Result, Update, Value};
use bytes::Bytes;

/// Record of a member's incarnations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncarnationRecord {
    /// Highest number of all admitted incarnations.
    pub number: u64,
    /// Latest admitted incarnation that has a token.
    pub incarnation_id: Option<IncarnationId>,
}

impl IncarnationRecord {
    /// Returns the record after the admission of this incarnation. A sole member can't be mistaken
    /// for another, and its directory may come from a checkpoint, which restarts the count of
    /// incarnations.
    pub fn after_admission(
        self,
        incarnation_id: IncarnationId,
        is_sole_member: bool,
    ) -> IncarnationRecord {
        let (number, with_token) =
            (incarnation_id.number, (incarnation_id.token != 0).then_some(incarnation_id));
        match is_sole_member {
            true => IncarnationRecord { number, incarnation_id: with_token },
            false if number < self.number => self,
            false => {
                let is_newer = |_: &IncarnationId| {
                    self.incarnation_id.is_none_or(|recorded| number > recorded.number)
                };
                IncarnationRecord {
                    number,
                    incarnation_id: with_token.filter(is_newer).or(self.incarnation_id),
                }
            }
        }
    }
}

impl Directory {
    /// Records the incarnation that a member runs.
    pub async fn record_incarnation(
        &self,
        node: NodeId,
        incarnation_id: IncarnationId,
    ) -> Result<()> {
        self.change(|| self.plan_incarnation(node, incarnation_id)).await.map(|_| ())
    }

    fn plan_incarnation(&self, node: NodeId, incarnation_id: IncarnationId) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        let Some(member) = draft.cluster.member(node).cloned() else {
            return Ok(CallPlan::Answer(Body::Done));
        };
        let recorded = self.get(&key(node))?.map(|row| read(&row)).transpose()?;
        let before = IncarnationRecord { number: member.incarnation, incarnation_id: recorded };
        let after = before.after_admission(incarnation_id, draft.cluster.members.len() == 1);
        if after.incarnation_id != before.incarnation_id {
            draft.steps.push(
                after.incarnation_id.map_or_else(
                    || delete_row(node),
                    |incarnation_id| set_row(node, incarnation_id),
                ),
            );
        }
        if after.number != before.number {
            draft.put_member(&MemberDescription { incarnation: after.number, ..member });
        }
        draft.into_plan()
    }
}

impl Draft {
    /// Deletes the rows of a node that is no member any more.
    pub(super) fn delete_member_rows(&mut self, node: NodeId) {
        let key = member_key(node);
        self.steps.push(Update::Delete { key, missing: OnMissing::Fail });
        self.steps.push(delete_row(node));
    }
}

fn key(node: NodeId) -> Key {
    Bytes::from(format!("l/{:016x}", node.0))
}

fn set_row(node: NodeId, incarnation_id: IncarnationId) -> Update {
    set(key(node), write(incarnation_id))
}

fn delete_row(node: NodeId) -> Update {
    Update::Delete { key: key(node), missing: OnMissing::Skip }
}

/// Returns the member of a row's key.
pub fn node_of(key: &[u8]) -> Option<NodeId> {
    let digits = std::str::from_utf8(key.strip_prefix(INCARNATIONS)?).ok()?;
    u64::from_str_radix(digits, 16).ok().map(NodeId)
}

fn write(incarnation_id: IncarnationId) -> Value {
    let mut bytes = vec![ROW_VERSION];
    bytes.put_u64(incarnation_id.number);
    bytes.put_u64(incarnation_id.token);
    Bytes::from(bytes)
}

/// Decodes an incarnation.
pub fn read(value: &[u8]) -> Result<IncarnationId> {
    let read = || {
        let mut reader = Reader::new(value);
        check_version(&mut reader, "life")?;
        let incarnation_id =
            IncarnationId { number: reader.u64("life")?, token: reader.u64("life")? };
        reader.end("life").map(|()| incarnation_id)
    };
    read().map_err(bad_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incarnation(number: u64, token: u64) -> IncarnationId {
        IncarnationId { number, token }
    }

    #[test]
    fn incarnation_record_only_advances_unless_member_is_alone() {
        let record = |number, incarnation_id| IncarnationRecord { number, incarnation_id };
        let known = record(5, Some(incarnation(5, 1)));
        assert_eq!(
            IncarnationRecord::default().after_admission(incarnation(1, 1), false),
            record(1, Some(incarnation(1, 1)))
        );
        assert_eq!(
            known.after_admission(incarnation(6, 2), false),
            record(6, Some(incarnation(6, 2)))
        );
        assert_eq!(
            known.after_admission(incarnation(5, 2), false),
            known,
            "another of that number"
        );
        assert_eq!(known.after_admission(incarnation(4, 2), false), known);
        // An incarnation without a token has a number; from then on none below it goes on record.
        let higher = known.after_admission(incarnation(9, 0), false);
        assert_eq!(higher, record(9, known.incarnation_id));
        assert_eq!(higher.after_admission(incarnation(7, 7), false), higher);
        assert_eq!(
            higher.after_admission(incarnation(9, 9), false),
            record(9, Some(incarnation(9, 9)))
        );
        // A checkpoint has replaced the member's directory.
        assert_eq!(
            known.after_admission(incarnation(1, 2), true),
            record(1, Some(incarnation(1, 2)))
        );
        assert_eq!(known.after_admission(incarnation(1, 0), true), record(1, None));
        assert_eq!(known.after_admission(incarnation(5, 1), true), known);
    }

    #[test]
    fn incarnation_row_round_trips_in_fixed_bytes() {
        let row = write(incarnation(7, 0xABCD));
        assert_eq!(row, [&[1, 7][..], &[0; 7], &[0xCD, 0xAB], &[0; 6]].concat());
        assert_eq!(read(&row), Ok(incarnation(7, 0xABCD)));
        for bad in [&row[..16], &[], &[2; 17], &[1; 18]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert_eq!(key(NodeId(0xAB)), "l/00000000000000ab");
        assert_eq!(node_of(&key(NodeId(0xAB))), Some(NodeId(0xAB)));
        assert_eq!(node_of(b"l/x"), None);
    }
}

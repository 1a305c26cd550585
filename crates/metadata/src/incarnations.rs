//! Last admitted incarnation of each member: its number is in the member's row, and its token, if
//! it has one, in a row of its own. A node that does not know the recorded incarnation runs on an
//! old copy of its directory (`docs/inside/peers.md`).
//!
//! Promises: unless a member is alone, only a later incarnation replaces the recorded one; none
//! below the recorded number is ever recorded.

use super::draft::Draft;
use super::rows::{FORM, LIVES, bad_row, form, member_key, set};
use super::{CallPlan, Directory};
use base::codec::{Reader, Writer};
use base::request::Missing;
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
    /// Returns the record after this incarnation was admitted. A sole member can't be mistaken for
    /// another, and its directory may come from a checkpoint, which counts incarnations anew.
    pub fn with(self, incarnation_id: IncarnationId, alone: bool) -> IncarnationRecord {
        let (number, told) =
            (incarnation_id.number, (incarnation_id.token != 0).then_some(incarnation_id));
        match alone {
            true => IncarnationRecord { number, incarnation_id: told },
            false if number < self.number => self,
            false => {
                let later = |_: &IncarnationId| {
                    self.incarnation_id.is_none_or(|known| number > known.number)
                };
                IncarnationRecord {
                    number,
                    incarnation_id: told.filter(later).or(self.incarnation_id),
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
        let Some(member) = draft.known.member(node).cloned() else {
            return Ok(CallPlan::Answer(Body::Done));
        };
        let told = self.get(&key(node))?.map(|row| read(&row)).transpose()?;
        let before = IncarnationRecord { number: member.incarnation, incarnation_id: told };
        let after = before.with(incarnation_id, draft.known.members.len() == 1);
        if after.incarnation_id != before.incarnation_id {
            draft.steps.push(
                after
                    .incarnation_id
                    .map_or_else(|| gone(node), |incarnation_id| written(node, incarnation_id)),
            );
        }
        if after.number != before.number {
            draft.put_member(&MemberDescription { incarnation: after.number, ..member });
        }
        draft.done()
    }
}

impl Draft {
    /// Deletes the rows of a node that is no member any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        let key = member_key(node);
        self.steps.push(Update::Delete { key, missing: Missing::Fails });
        self.steps.push(gone(node));
    }
}

fn key(node: NodeId) -> Key {
    Bytes::from(format!("l/{:016x}", node.0))
}

fn written(node: NodeId, incarnation_id: IncarnationId) -> Update {
    set(key(node), write(incarnation_id))
}

fn gone(node: NodeId) -> Update {
    Update::Delete { key: key(node), missing: Missing::Skipped }
}

/// Returns the member of a row's key.
pub fn node_of(key: &[u8]) -> Option<NodeId> {
    let digits = std::str::from_utf8(key.strip_prefix(LIVES)?).ok()?;
    u64::from_str_radix(digits, 16).ok().map(NodeId)
}

fn write(incarnation_id: IncarnationId) -> Value {
    let mut bytes = vec![FORM];
    bytes.put_u64(incarnation_id.number);
    bytes.put_u64(incarnation_id.token);
    Bytes::from(bytes)
}

/// Decodes an incarnation.
pub fn read(value: &[u8]) -> Result<IncarnationId> {
    let read = || {
        let mut reader = Reader::new(value);
        form(&mut reader, "life")?;
        let incarnation_id =
            IncarnationId { number: reader.u64("life")?, token: reader.u64("life")? };
        reader.end("life").map(|()| incarnation_id)
    };
    read().map_err(bad_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(number: u64, token: u64) -> IncarnationId {
        IncarnationId { number, token }
    }

    #[test]
    fn only_a_later_life_replaces_the_recorded_one_unless_its_node_is_alone() {
        let record = |number, incarnation_id| IncarnationRecord { number, incarnation_id };
        let known = record(5, Some(life(5, 1)));
        assert_eq!(
            IncarnationRecord::default().with(life(1, 1), false),
            record(1, Some(life(1, 1)))
        );
        assert_eq!(known.with(life(6, 2), false), record(6, Some(life(6, 2))));
        assert_eq!(known.with(life(5, 2), false), known, "another of that number");
        assert_eq!(known.with(life(4, 2), false), known);
        // An incarnation without a token has a number; from then on none below it goes on record.
        let higher = known.with(life(9, 0), false);
        assert_eq!(higher, record(9, known.incarnation_id));
        assert_eq!(higher.with(life(7, 7), false), higher);
        assert_eq!(higher.with(life(9, 9), false), record(9, Some(life(9, 9))));
        // A checkpoint has replaced the member's directory.
        assert_eq!(known.with(life(1, 2), true), record(1, Some(life(1, 2))));
        assert_eq!(known.with(life(1, 0), true), record(1, None));
        assert_eq!(known.with(life(5, 1), true), known);
    }

    #[test]
    fn rows_read_back_and_the_bytes_are_for_ever() {
        let row = write(life(7, 0xABCD));
        assert_eq!(row, [&[1, 7][..], &[0; 7], &[0xCD, 0xAB], &[0; 6]].concat());
        assert_eq!(read(&row), Ok(life(7, 0xABCD)));
        for bad in [&row[..16], &[], &[2; 17], &[1; 18]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert_eq!(key(NodeId(0xAB)), "l/00000000000000ab");
        assert_eq!(node_of(&key(NodeId(0xAB))), Some(NodeId(0xAB)));
        assert_eq!(node_of(b"l/x"), None);
    }
}

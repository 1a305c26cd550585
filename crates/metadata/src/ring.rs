//! Ring of the directory: one row, and one more for planned changes.
//!
//! At first the founder has all partitions. Changes are planned one by one, shown together and
//! committed together. From then on the row holds both layouts, and each node reports the copies
//! that it has received; the last report of a partition hands it over. `Claim` gives every member
//! that stays its even share at once. It moves no data, so it is decided only when its caller has
//! made sure that there are none to move (`dynamo/ring_bootstrap.rs`).

use super::ring_words::{RingNames, described, transfers};
use super::rows::{RING, assert, bad_row, set};
use super::{CallPlan, Directory, staged};
use base::codec::Malformed;
use base::request::Missing;
use base::{
    Body, Error, Membership, NodeId, Reason, Result, RingCall, RingChange, RingLoad, RingMove,
    RingPlan, Update, Value,
};
use bytes::Bytes;
use logic::ring::{self, PARTITIONS_DEFAULT, Rack, Ring, RingWish, Unsafe};
use std::collections::BTreeSet;

/// Number of copies for which the ring is laid out.
const COPIES: usize = 3;

/// Ring as read from its row.
struct RingRow {
    row: Value,
    ring: Ring,
}

/// Planned changes of the ring.
struct StagedChanges {
    row: Option<Value>,
    changes: Vec<RingChange>,
}

impl Directory {
    fn ring(&self) -> Result<Option<RingRow>> {
        let Some(row) = self.get(&Bytes::from_static(RING))? else { return Ok(None) };
        let ring = read_ring(&row)?;
        Ok(Some(RingRow { row, ring }))
    }

    fn staged(&self) -> Result<StagedChanges> {
        let row = self.get(&staged::key())?;
        let changes = row.as_ref().map(|row| staged::read(row)).transpose()?;
        Ok(StagedChanges { row, changes: changes.unwrap_or_default() })
    }

    /// Returns the numbers of copies for which buckets keep rows.
    pub(super) fn numbers(&self) -> Vec<usize> {
        self.catalog.available.numbers().into_iter().map(usize::from).collect()
    }

    pub(super) fn plan_ring(&self, call: &RingCall, down: &BTreeSet<NodeId>) -> Result<CallPlan> {
        let known = self.ring()?;
        match call {
            RingCall::Describe => {
                let described = known.map(|known| described(&known.ring)).unwrap_or_default();
                return Ok(CallPlan::Answer(Body::Ring(described)));
            }
            RingCall::Claim => return self.claim(known),
            _ => {}
        }
        let known = known.ok_or_else(|| {
            Error::new(Reason::Starting, "the cluster is being founded: try again")
        })?;
        let numbers = self.numbers();
        match call {
            RingCall::Describe | RingCall::Claim => unreachable!("they were answered"),
            RingCall::Plan => {
                let changes = self.staged()?.changes;
                Ok(CallPlan::Answer(Body::RingPlan(Box::new(self.shown(&known, changes, down)?))))
            }
            RingCall::Stage(change) => self.stage(&known, change, down),
            RingCall::Clear => match self.staged()?.row {
                None => Ok(CallPlan::Answer(Body::Done)),
                row => Ok(CallPlan::Change(vec![assert(&staged::key(), row), unstage()])),
            },
            RingCall::Commit { epoch } => self.commit(known, *epoch, down),
            RingCall::Cancel => self.call_off(known, down),
            RingCall::Transfers => {
                let transfers = transfers(&self.without_the_gone(known.ring)?, &numbers);
                Ok(CallPlan::Answer(Body::RingTransfers(transfers)))
            }
            RingCall::Received { since, partition, node } => {
                let next = known.ring.receive(*since, (*partition, *node), &numbers);
                self.told(known, next)
            }
            RingCall::Cleared { partition, of, node } => {
                let next = known.ring.clear((*partition, *of), *node);
                self.told(known, next)
            }
        }
    }

    /// Returns the plan of these changes of the ring.
    fn worked_out(
        &self,
        ring: &Ring,
        changes: &[RingChange],
        down: &BTreeSet<NodeId>,
    ) -> Result<ring::Plan> {
        let known = self.described()?;
        let names = RingNames { known: &known, ring };
        let changes = changes.iter().map(|change| names.change(change));
        let changes = changes.collect::<Result<Vec<_>>>()?;
        ring::plan(ring, &changes, COPIES, down).map_err(|error| names.refused(&error))
    }

    fn stage(
        &self,
        known: &RingRow,
        change: &RingChange,
        down: &BTreeSet<NodeId>,
    ) -> Result<CallPlan> {
        let StagedChanges { row, mut changes } = self.staged()?;
        staged::check(change, changes.len())?;
        changes.push(change.clone());
        self.worked_out(&known.ring, &changes, down)?;
        let laid = staged::write(&changes);
        let steps = vec![
            assert(&Bytes::from_static(RING), Some(known.row.clone())),
            assert(&staged::key(), row),
            set(staged::key(), laid),
        ];
        let shown = self.shown(known, changes, down)?;
        Ok(CallPlan::Made(steps, Body::RingPlan(Box::new(shown))))
    }

    /// Returns the outcome of these changes, or the reason for which they can't begin now.
    fn shown(
        &self,
        known: &RingRow,
        changes: Vec<RingChange>,
        down: &BTreeSet<NodeId>,
    ) -> Result<RingPlan> {
        let shown = RingPlan { epoch: known.ring.epoch(), changes, ..RingPlan::default() };
        if shown.changes.is_empty() {
            return Ok(shown);
        }
        let plan = match self.worked_out(&known.ring, &shown.changes, down) {
            Ok(plan) => plan,
            Err(error) => {
                return Ok(RingPlan { refused: Some(error.text()), ..shown });
            }
        };
        let described = self.described()?;
        let names = RingNames { known: &described, ring: &known.ring };
        let count = |count: usize| count as u64;
        let load = |load: &ring::NodeLoad| RingLoad {
            node: load.node,
            before: load.before.map(count),
            after: load.after.map(count),
            copies_before: count(load.copies_before),
            copies_after: count(load.copies_after),
        };
        let one =
            |one: &ring::Move| RingMove { partition: one.partition.0, from: one.from, to: one.to };
        Ok(RingPlan {
            loads: plan.loads.iter().map(load).collect(),
            moves: plan.moves.iter().map(one).collect(),
            copies_sent: count(plan.copies_sent),
            copies: count(plan.copies),
            warnings: plan.warnings.iter().map(|text| names.named(text)).collect(),
            ..shown
        })
    }

    fn commit(
        &self,
        known: RingRow,
        epoch: Option<u64>,
        down: &BTreeSet<NodeId>,
    ) -> Result<CallPlan> {
        let StagedChanges { row, changes } = self.staged()?;
        if changes.is_empty() {
            let text = "no change of the ring is planned: `credenza cluster ring join NODE`";
            return Err(Error::new(Reason::Changed, text));
        }
        let now = known.ring.epoch();
        if let Some(epoch) = epoch.filter(|epoch| *epoch != now) {
            let text = format!(
                "the plan was shown for epoch {epoch} of the ring, which is at epoch {now}: look \
                 at the plan again"
            );
            return Err(Error::new(Reason::Changed, text));
        }
        let plan = self.worked_out(&known.ring, &changes, down)?;
        let next = known.ring.commit(&plan);
        let next = next.map_err(|error| Error::new(Reason::Changed, error.to_string()))?;
        let next = self.without_the_gone(next.without_idle(&self.numbers()))?;
        let steps = vec![
            assert(&Bytes::from_static(RING), Some(known.row)),
            assert(&staged::key(), row),
            put_ring(&next),
            unstage(),
        ];
        Ok(CallPlan::Made(steps, Body::Ring(described(&next))))
    }

    /// Cancels the present change: partitions that were handed over go back. The nodes that receive
    /// them again must be reachable, since a change that waits for them could neither end nor be
    /// followed by another.
    fn call_off(&self, known: RingRow, down: &BTreeSet<NodeId>) -> Result<CallPlan> {
        let numbers = self.numbers();
        let Some(next) = known.ring.cancel(&numbers) else {
            return Err(Error::new(Reason::Changed, "no change of the ring is under way"));
        };
        // Partitions that had nothing to copy have nothing to copy back.
        let next = next.without_idle(&numbers);
        let members = self.described()?;
        let away = |node: &NodeId| down.contains(node) || members.member(*node).is_none();
        let awaited = next.awaited(&numbers);
        let away: Vec<_> = awaited.iter().filter(|node| away(node)).collect();
        if away.is_empty() {
            let next = self.without_the_gone(next)?;
            return Ok(changed(Some(known.row), &next));
        }
        let names = RingNames { known: &members, ring: &known.ring };
        let away: Vec<_> = away.iter().map(|node| names.named(&format!("node {node}"))).collect();
        let text = format!(
            "partitions that have gone over would have to go back to {}, out of reach: start it \
             and call the change off then, or let the change end and plan another",
            away.join(", ")
        );
        Err(Error::new(Reason::Changed, text))
    }

    /// Removes nodes that are no members any more from the ring, as receivers and as holders of
    /// leftovers. They are not admitted again.
    fn without_the_gone(&self, ring: Ring) -> Result<Ring> {
        let (known, numbers) = (self.described()?, self.numbers());
        let gone = |node: NodeId| known.member(node).is_none();
        Ok(ring.without_leftovers_of(gone).without_receivers_of(gone, &numbers))
    }

    /// Plans the change that a node's report causes. Changes nothing if the report is known
    /// already.
    fn told(&self, known: RingRow, next: Option<Ring>) -> Result<CallPlan> {
        let Some(next) = next else { return Ok(CallPlan::Answer(Body::Done)) };
        let row = assert(&Bytes::from_static(RING), Some(known.row));
        Ok(CallPlan::Change(vec![row, put_ring(&self.without_the_gone(next)?)]))
    }

    /// Returns true if a claim would change the ring.
    pub fn claim_changes(&self) -> Result<bool> {
        Ok(!matches!(self.plan_ring(&RingCall::Claim, &BTreeSet::new())?, CallPlan::Answer(_)))
    }

    /// Claims the ring: every member that stays takes its part at once.
    fn claim(&self, before: Option<RingRow>) -> Result<CallPlan> {
        let known = self.described()?;
        // A witness keeps no data.
        let keeps = |node| !known.is_witness(node);
        let stays = known.members.iter().filter(|member| member.membership == Membership::Member);
        let stays = stays.filter(|member| keeps(member.node));
        let stays: Vec<NodeId> = stays.map(|member| member.node).collect();
        let (value, ring) = match before {
            Some(RingRow { row, ring }) => (Some(row), ring),
            None => {
                let first = stays.first().copied().ok_or_else(|| {
                    Error::new(Reason::Changed, "the cluster has no member that stays")
                })?;
                (None, founded(first))
            }
        };
        let has = |node: &NodeId| ring.layout().nodes().contains_key(node);
        let come = stays.iter().filter(|node| !has(node));
        let go = ring.layout().nodes().keys().filter(|node| !stays.contains(node));
        let rack = || Rack(String::new());
        let mut changes: Vec<_> =
            come.map(|node| RingWish::Join { node: *node, rack: rack() }).collect();
        changes.extend(go.map(|node| RingWish::Leave { node: *node }));
        if changes.is_empty() {
            return match value {
                Some(_) => Ok(CallPlan::Answer(Body::Ring(described(&ring)))),
                None => Ok(changed(None, &ring)),
            };
        }
        let refused = |error: Unsafe| {
            Error::new(Reason::Changed, format!("the ring can't be changed so: {error}"))
        };
        let plan = ring::plan(&ring, &changes, COPIES, &BTreeSet::new()).map_err(refused)?;
        let mut next = ring.commit(&plan).map_err(refused)?;
        // There are no data to move, so every partition counts as arrived, and no node has
        // leftovers.
        for copying in next.copying(COPIES) {
            next = next.arrive(copying.partition, &[]).unwrap_or(next);
        }
        Ok(changed(value, &next))
    }

    /// Plans the first ring of a cluster. No change if it has one.
    pub(super) fn plan_first_ring(&self, founder: NodeId) -> Result<CallPlan> {
        match self.ring()? {
            Some(_) => Ok(CallPlan::Answer(Body::Done)),
            None => Ok(CallPlan::Change(vec![
                assert(&Bytes::from_static(RING), None),
                put_ring(&founded(founder)),
            ])),
        }
    }
}

fn founded(node: NodeId) -> Ring {
    Ring::founded(node, Rack(String::new()), PARTITIONS_DEFAULT, COPIES)
}

fn changed(value: Option<Value>, ring: &Ring) -> CallPlan {
    let steps = vec![assert(&Bytes::from_static(RING), value), put_ring(ring)];
    CallPlan::Made(steps, Body::Ring(described(ring)))
}

fn put_ring(ring: &Ring) -> Update {
    set(Bytes::from_static(RING), Bytes::from(ring.encode()))
}

fn unstage() -> Update {
    Update::Delete { key: staged::key(), missing: Missing::Fails }
}

/// Decodes the ring of a row.
pub fn read_ring(value: &[u8]) -> Result<Ring> {
    Ring::decode(value).map_err(|Malformed(field)| bad_row(Malformed(field)))
}

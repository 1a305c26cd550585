//! Ring of the directory: one row, and one more for planned changes.
//!
//! At first the founder has all partitions. Changes are planned one by one, shown together and
//! committed together. From then on the row holds both layouts, and each node reports the copies
//! that it has received; the last report of a partition hands it over. `Claim` gives every member
//! that stays its even share at once. It moves no data, so it is decided only when its caller has
//! made sure that there are none to move (`dynamo/ring_bootstrap.rs`).

use super::ring_names::{RingNames, describe_ring, transfers};
use super::rows::{RING, assert, bad_row, set};
use super::{CallPlan, Directory, staged};
use base::codec::Malformed;
use base::request::OnMissing;
use base::{
    Body, Error, Membership, NodeId, Reason, Result, RingCall, RingChange, RingLoad, RingMove,
    RingPlan, Update, Value,
};
use bytes::Bytes;
use logic::ring::{self, PARTITIONS_DEFAULT, PlanError, Rack, Ring, RingChangeRequest};
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
    /// Returns the ring. `None`: there is none yet.
    pub(super) fn present_ring(&self) -> Result<Option<Ring>> {
        Ok(self.ring()?.map(|row| row.ring))
    }

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
    pub(super) fn n_vals(&self) -> Vec<usize> {
        self.catalog.available.n_vals().into_iter().map(usize::from).collect()
    }

    pub(super) fn plan_ring(&self, call: &RingCall, down: &BTreeSet<NodeId>) -> Result<CallPlan> {
        let current = self.ring()?;
        match call {
            RingCall::Describe => {
                let description =
                    current.map(|current| describe_ring(&current.ring)).unwrap_or_default();
                return Ok(CallPlan::Answer(Body::Ring(description)));
            }
            RingCall::Claim => return self.claim(current),
            _ => {}
        }
        let current = current.ok_or_else(|| {
            Error::new(Reason::Starting, "the cluster is being founded: try again")
        })?;
        let n_vals = self.n_vals();
        match call {
            RingCall::Describe | RingCall::Claim => unreachable!("they were answered"),
            RingCall::Plan => {
                let changes = self.staged()?.changes;
                Ok(CallPlan::Answer(Body::RingPlan(Box::new(
                    self.build_ring_plan(&current, changes, down)?,
                ))))
            }
            RingCall::Stage(change) => self.stage(&current, change, down),
            RingCall::Clear => match self.staged()?.row {
                None => Ok(CallPlan::Answer(Body::Done)),
                row => Ok(CallPlan::Change(vec![assert(&staged::key(), row), clear_staged()])),
            },
            RingCall::Commit { epoch } => self.commit(current, *epoch, down),
            RingCall::Cancel => self.cancel(current, down),
            RingCall::Transfers => {
                let transfers = transfers(&self.without_former_members(current.ring)?, &n_vals);
                Ok(CallPlan::Answer(Body::RingTransfers(transfers)))
            }
            RingCall::Received { since, partition, node } => {
                let next = current.ring.receive(*since, (*partition, *node), &n_vals);
                self.plan_report(current, next)
            }
            RingCall::Cleared { partition, partitions, node } => {
                let next = current.ring.clear_leftovers((*partition, *partitions), *node);
                self.plan_report(current, next)
            }
        }
    }

    /// Returns the plan of these changes of the ring.
    fn compute_plan(
        &self,
        ring: &Ring,
        changes: &[RingChange],
        down: &BTreeSet<NodeId>,
    ) -> Result<ring::Plan> {
        let cluster = self.describe_cluster()?;
        let names = RingNames { cluster: &cluster, ring };
        let changes = changes.iter().map(|change| names.resolve(change));
        let changes = changes.collect::<Result<Vec<_>>>()?;
        ring::plan(ring, &changes, COPIES, down).map_err(|error| names.plan_error(&error))
    }

    fn stage(
        &self,
        current: &RingRow,
        change: &RingChange,
        down: &BTreeSet<NodeId>,
    ) -> Result<CallPlan> {
        let StagedChanges { row, mut changes } = self.staged()?;
        staged::check(change, changes.len())?;
        changes.push(change.clone());
        self.compute_plan(&current.ring, &changes, down)?;
        let value = staged::write(&changes);
        let steps = vec![
            assert(&Bytes::from_static(RING), Some(current.row.clone())),
            assert(&staged::key(), row),
            set(staged::key(), value),
        ];
        let summary = self.build_ring_plan(current, changes, down)?;
        Ok(CallPlan::ChangeWithAnswer(steps, Body::RingPlan(Box::new(summary))))
    }

    /// Returns the outcome of these changes, or the reason for which they can't begin now.
    fn build_ring_plan(
        &self,
        current: &RingRow,
        changes: Vec<RingChange>,
        down: &BTreeSet<NodeId>,
    ) -> Result<RingPlan> {
        let summary = RingPlan { epoch: current.ring.epoch(), changes, ..RingPlan::default() };
        if summary.changes.is_empty() {
            return Ok(summary);
        }
        let plan = match self.compute_plan(&current.ring, &summary.changes, down) {
            Ok(plan) => plan,
            Err(error) => {
                return Ok(RingPlan { refused: Some(error.text()), ..summary });
            }
        };
        let cluster = self.describe_cluster()?;
        let names = RingNames { cluster: &cluster, ring: &current.ring };
        let count = |count: usize| count as u64;
        let load = |load: &ring::NodeLoad| RingLoad {
            node: load.node,
            before: load.before.map(count),
            after: load.after.map(count),
            copies_before: count(load.copies_before),
            copies_after: count(load.copies_after),
        };
        let ring_move = |ring_move: &ring::Move| RingMove {
            partition: ring_move.partition.0,
            from: ring_move.from,
            to: ring_move.to,
        };
        Ok(RingPlan {
            loads: plan.loads.iter().map(load).collect(),
            moves: plan.moves.iter().map(ring_move).collect(),
            copies_sent: count(plan.copies_sent),
            copies: count(plan.copies),
            warnings: plan.warnings.iter().map(|text| names.with_names(text)).collect(),
            ..summary
        })
    }

    fn commit(
        &self,
        current: RingRow,
        epoch: Option<u64>,
        down: &BTreeSet<NodeId>,
    ) -> Result<CallPlan> {
        let StagedChanges { row, changes } = self.staged()?;
        if changes.is_empty() {
            let text = "no ring change is planned: plan one first, for example `credenza cluster \
                        ring join NODE`";
            return Err(Error::new(Reason::Changed, text));
        }
        let now = current.ring.epoch();
        if let Some(epoch) = epoch.filter(|epoch| *epoch != now) {
            let text = format!(
                "the plan was made for epoch {epoch} of the ring, which is at epoch {now}: look at \
                 the plan again"
            );
            return Err(Error::new(Reason::Changed, text));
        }
        let plan = self.compute_plan(&current.ring, &changes, down)?;
        let next = current.ring.commit(&plan);
        let next = next.map_err(|error| Error::new(Reason::Changed, error.to_string()))?;
        let next = self.without_former_members(next.mark_idle_arrived(&self.n_vals()))?;
        let steps = vec![
            assert(&Bytes::from_static(RING), Some(current.row)),
            assert(&staged::key(), row),
            put_ring(&next),
            clear_staged(),
        ];
        Ok(CallPlan::ChangeWithAnswer(steps, Body::Ring(describe_ring(&next))))
    }

    /// Cancels the present change: partitions that were handed over go back. The nodes that receive
    /// them again must be reachable, since a change that waits for them could neither end nor be
    /// followed by another.
    fn cancel(&self, current: RingRow, down: &BTreeSet<NodeId>) -> Result<CallPlan> {
        let n_vals = self.n_vals();
        let Some(next) = current.ring.cancel(&n_vals) else {
            return Err(Error::new(Reason::Changed, "no ring change is in progress"));
        };
        // Partitions that had nothing to copy have nothing to copy back.
        let next = next.mark_idle_arrived(&n_vals);
        let members = self.describe_cluster()?;
        let unreachable = |node: &NodeId| down.contains(node) || members.member(*node).is_none();
        let awaited = next.awaited_receivers(&n_vals);
        let unreachable: Vec<_> = awaited.iter().filter(|node| unreachable(node)).collect();
        if unreachable.is_empty() {
            let next = self.without_former_members(next)?;
            return Ok(change_plan(Some(current.row), &next));
        }
        let names = RingNames { cluster: &members, ring: &current.ring };
        let unreachable: Vec<_> =
            unreachable.iter().map(|node| names.with_names(&format!("node {node}"))).collect();
        let text = format!(
            "transferred partitions would have to return to {}, which is unreachable: start it and \
             cancel the change then, or let the change complete and plan another",
            unreachable.join(", ")
        );
        Err(Error::new(Reason::Changed, text))
    }

    /// Removes former members from the ring, as receivers and as holders of leftovers. They are not
    /// admitted again.
    fn without_former_members(&self, ring: Ring) -> Result<Ring> {
        let (cluster, n_vals) = (self.describe_cluster()?, self.n_vals());
        let is_former = |node: NodeId| cluster.member(node).is_none();
        Ok(ring.without_leftovers_of(is_former).without_receivers_of(is_former, &n_vals))
    }

    /// Plans the change that a node's report causes. Changes nothing if the report is known
    /// already.
    fn plan_report(&self, current: RingRow, next: Option<Ring>) -> Result<CallPlan> {
        let Some(next) = next else { return Ok(CallPlan::Answer(Body::Done)) };
        let row = assert(&Bytes::from_static(RING), Some(current.row));
        Ok(CallPlan::Change(vec![row, put_ring(&self.without_former_members(next)?)]))
    }

    /// Returns true if a claim would change the ring.
    pub fn claim_changes(&self) -> Result<bool> {
        Ok(!matches!(self.plan_ring(&RingCall::Claim, &BTreeSet::new())?, CallPlan::Answer(_)))
    }

    /// Claims the ring: every staying member becomes an owner at once.
    fn claim(&self, before: Option<RingRow>) -> Result<CallPlan> {
        let cluster = self.describe_cluster()?;
        // A witness keeps no data.
        let holds_rows = |node| !cluster.is_witness(node);
        let staying =
            cluster.members.iter().filter(|member| member.membership == Membership::Member);
        let staying = staying.filter(|member| holds_rows(member.node));
        let staying: Vec<NodeId> = staying.map(|member| member.node).collect();
        let (value, ring) = match before {
            Some(RingRow { row, ring }) => (Some(row), ring),
            None => {
                let first = staying.first().copied().ok_or_else(|| {
                    Error::new(Reason::Changed, "the cluster has no member that is not leaving")
                })?;
                (None, initial_ring(first))
            }
        };
        let is_in_ring = |node: &NodeId| ring.layout().nodes().contains_key(node);
        let joining = staying.iter().filter(|node| !is_in_ring(node));
        let leaving = ring.layout().nodes().keys().filter(|node| !staying.contains(node));
        let rack = || Rack(String::new());
        let mut changes: Vec<_> =
            joining.map(|node| RingChangeRequest::Join { node: *node, rack: rack() }).collect();
        changes.extend(leaving.map(|node| RingChangeRequest::Leave { node: *node }));
        if changes.is_empty() {
            return match value {
                Some(_) => Ok(CallPlan::Answer(Body::Ring(describe_ring(&ring)))),
                None => Ok(change_plan(None, &ring)),
            };
        }
        let plan_error = |error: PlanError| {
            Error::new(Reason::Changed, format!("this ring change is not possible: {error}"))
        };
        let plan = ring::plan(&ring, &changes, COPIES, &BTreeSet::new()).map_err(plan_error)?;
        let mut next = ring.commit(&plan).map_err(plan_error)?;
        // There are no data to move, so every partition counts as arrived, and no node has
        // leftovers.
        for copying in next.pending_copies(COPIES) {
            next = next.arrive(copying.partition, &[]).unwrap_or(next);
        }
        Ok(change_plan(value, &next))
    }

    /// Plans the first ring of a cluster. No change if it has one.
    pub(super) fn plan_first_ring(&self, founder: NodeId) -> Result<CallPlan> {
        match self.ring()? {
            Some(_) => Ok(CallPlan::Answer(Body::Done)),
            None => Ok(CallPlan::Change(vec![
                assert(&Bytes::from_static(RING), None),
                put_ring(&initial_ring(founder)),
            ])),
        }
    }
}

fn initial_ring(node: NodeId) -> Ring {
    Ring::initial(node, Rack(String::new()), PARTITIONS_DEFAULT, COPIES)
}

fn change_plan(value: Option<Value>, ring: &Ring) -> CallPlan {
    let steps = vec![assert(&Bytes::from_static(RING), value), put_ring(ring)];
    CallPlan::ChangeWithAnswer(steps, Body::Ring(describe_ring(ring)))
}

fn put_ring(ring: &Ring) -> Update {
    set(Bytes::from_static(RING), Bytes::from(ring.encode()))
}

fn clear_staged() -> Update {
    Update::Delete { key: staged::key(), missing: OnMissing::Fail }
}

/// Decodes the ring of a row.
pub fn read_ring(value: &[u8]) -> Result<Ring> {
    Ring::decode(value).map_err(|Malformed(field)| bad_row(Malformed(field)))
}

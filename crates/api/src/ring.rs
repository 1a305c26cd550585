//! The ring of available buckets: its owners, its changes and their progress.

use crate::number::{HexId, Integer};
use crate::schema::{MemberName, RackName};
use base::RingDescription;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ring: the owners of the partitions of available buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ring {
    /// Epoch of the ring; 0: there is no ring yet.
    pub epoch: u64,
    /// Durable id of the owner of each partition, in order.
    pub owners: Vec<HexId>,
}

/// Ring change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub enum RingChange {
    /// Adds a member to the ring.
    Join {
        /// Name of the member.
        #[schemars(with = "MemberName")]
        node: String,
        /// Name of the rack (failure domain); null: a rack of its own.
        #[schemars(with = "Option<RackName>")]
        rack: Option<String>,
    },
    /// Removes a member from the ring.
    Leave {
        /// Name of the member.
        #[schemars(with = "MemberName")]
        node: String,
    },
    /// Replaces a member by a member without partitions.
    Replace {
        /// Name of the member to replace.
        #[schemars(with = "MemberName")]
        node: String,
        /// Name of the replacement.
        #[schemars(with = "MemberName")]
        by: String,
        /// Name of the rack (failure domain); null: a rack of its own.
        #[schemars(with = "Option<RackName>")]
        rack: Option<String>,
    },
    /// Assigns a member to another rack.
    Rack {
        /// Name of the member.
        #[schemars(with = "MemberName")]
        node: String,
        /// Name of the rack (failure domain); empty: a rack of its own.
        #[schemars(with = "RackName")]
        rack: String,
    },
    /// Doubles the number of partitions.
    Double {},
    /// Halves the number of partitions.
    Halve {},
}

/// Epoch of the ring for which the plan is committed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RingEpoch {
    /// Expected epoch of the ring; null: any epoch.
    pub epoch: Option<Integer>,
}

/// Planned ring changes, and their effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingPlan {
    /// Epoch of the ring that the plan changes.
    pub epoch: u64,
    /// Changes, in the order in which they were planned.
    pub changes: Vec<RingChange>,
    /// Partitions and replicas of each node, before and after.
    pub loads: Vec<RingLoad>,
    /// Partitions whose first owner changes.
    pub moves: Vec<RingMove>,
    /// Number of partition replicas to transfer.
    pub replicas_sent: u64,
    /// Total number of partition replicas.
    pub replicas: u64,
    /// Estimated number of bytes to transfer.
    pub bytes: u64,
    /// Warnings, for example about keys with fewer replicas than desired.
    pub warnings: Vec<String>,
    /// Reason why the plan can't be committed; null: it can.
    pub refused: Option<String>,
}

/// Load of a node before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingLoad {
    /// Durable id of the node.
    pub node: HexId,
    /// Number of partitions of which the node is the first owner before the change; null: not on
    /// the ring.
    pub before: Option<u64>,
    /// Number of partitions of which the node is the first owner after the change; null: not on the
    /// ring.
    pub after: Option<u64>,
    /// Number of partition replicas before the change.
    pub replicas_before: u64,
    /// Number of partition replicas after the change.
    pub replicas_after: u64,
}

/// Partition whose first owner changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingMove {
    /// Number of the partition.
    pub partition: u32,
    /// Durable id of the former owner.
    pub from: HexId,
    /// Durable id of the new owner.
    pub to: HexId,
}

/// Progress of the ring change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingTransfers {
    /// Epoch of the ring.
    pub epoch: u64,
    /// Number of partitions that are not transferred yet.
    pub remaining: u64,
    /// Progress of each node.
    pub nodes: Vec<RingTransfer>,
}

/// Progress of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingTransfer {
    /// Durable id of the node.
    pub node: HexId,
    /// Number of partition replicas that the node must receive.
    pub receiving: u64,
    /// Number of partition replicas received.
    pub received: u64,
    /// Number of rows received.
    pub rows: u64,
    /// Number of bytes received.
    pub bytes: u64,
    /// Estimated number of bytes still to receive; null: unknown.
    pub bytes_left: Option<u64>,
    /// Transfer rate in bytes per second.
    pub bytes_per_second: u64,
    /// Estimated time until completion in milliseconds; null: unknown.
    pub eta_ms: Option<u64>,
    /// Number of former partition replicas that the node must still remove.
    pub clearing: u64,
    /// Condition that the node waits for; empty: none.
    pub waits_for: String,
}

impl From<&RingDescription> for Ring {
    fn from(ring: &RingDescription) -> Ring {
        let owners = ring.owners.iter().map(|owner| (*owner).into());
        Ring { epoch: ring.epoch, owners: owners.collect() }
    }
}

impl From<&base::RingChange> for RingChange {
    fn from(change: &base::RingChange) -> RingChange {
        match change.clone() {
            base::RingChange::Join { node, rack } => RingChange::Join { node, rack: Some(rack) },
            base::RingChange::Leave { node } => RingChange::Leave { node },
            base::RingChange::Replace { node, by, rack } => {
                RingChange::Replace { node, by, rack: Some(rack) }
            }
            base::RingChange::Rack { node, rack } => RingChange::Rack { node, rack },
            base::RingChange::Double => RingChange::Double {},
            base::RingChange::Halve => RingChange::Halve {},
        }
    }
}

impl From<RingChange> for base::RingChange {
    fn from(change: RingChange) -> base::RingChange {
        match change {
            RingChange::Join { node, rack } => {
                base::RingChange::Join { node, rack: rack.unwrap_or_default() }
            }
            RingChange::Leave { node } => base::RingChange::Leave { node },
            RingChange::Replace { node, by, rack } => {
                base::RingChange::Replace { node, by, rack: rack.unwrap_or_default() }
            }
            RingChange::Rack { node, rack } => base::RingChange::Rack { node, rack },
            RingChange::Double {} => base::RingChange::Double,
            RingChange::Halve {} => base::RingChange::Halve,
        }
    }
}

impl From<&base::RingPlan> for RingPlan {
    fn from(plan: &base::RingPlan) -> RingPlan {
        let load = |load: &base::RingLoad| RingLoad {
            node: load.node.into(),
            before: load.before,
            after: load.after,
            replicas_before: load.copies_before,
            replicas_after: load.copies_after,
        };
        let ring_move = |ring_move: &base::RingMove| RingMove {
            partition: ring_move.partition,
            from: ring_move.from.into(),
            to: ring_move.to.into(),
        };
        RingPlan {
            epoch: plan.epoch,
            changes: plan.changes.iter().map(RingChange::from).collect(),
            loads: plan.loads.iter().map(load).collect(),
            moves: plan.moves.iter().map(ring_move).collect(),
            replicas_sent: plan.copies_sent,
            replicas: plan.copies,
            bytes: plan.bytes,
            warnings: plan.warnings.clone(),
            refused: plan.refused.clone(),
        }
    }
}

impl From<&base::RingTransfers> for RingTransfers {
    fn from(transfers: &base::RingTransfers) -> RingTransfers {
        let transfer = |transfer: &base::RingTransfer| RingTransfer {
            node: transfer.node.into(),
            receiving: transfer.receiving,
            received: transfer.received,
            rows: transfer.rows,
            bytes: transfer.bytes,
            bytes_left: transfer.bytes_left,
            bytes_per_second: transfer.rate,
            eta_ms: transfer.eta_ms,
            clearing: transfer.clearing,
            waits_for: transfer.waits_for.clone(),
        };
        let nodes = transfers.nodes.iter().map(transfer).collect();
        RingTransfers { epoch: transfers.epoch, remaining: transfers.left, nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;
    use serde_json::json;

    #[test]
    fn ring_plan_json_form_is_pinned_and_round_trips() {
        let text = |text: &str| text.to_string();
        let changes = vec![
            base::RingChange::Join { node: text("n5"), rack: text("r1") },
            base::RingChange::Leave { node: text("n1") },
            base::RingChange::Replace { node: text("n2"), by: text("n6"), rack: text("") },
            base::RingChange::Rack { node: text("n3"), rack: text("") },
            base::RingChange::Double,
            base::RingChange::Halve,
        ];
        for change in &changes {
            let round_trip = serde_json::to_value(RingChange::from(change)).and_then(|json| {
                serde_json::from_value::<RingChange>(json).map(base::RingChange::from)
            });
            assert_eq!(round_trip.ok().as_ref(), Some(change));
        }
        let (node, before) = (NodeId(7), None);
        let load =
            base::RingLoad { node, before, after: Some(3), copies_before: 0, copies_after: 9 };
        let plan = base::RingPlan {
            epoch: 4,
            changes: changes[..2].to_vec(),
            loads: vec![load],
            moves: vec![base::RingMove { partition: 3, from: node, to: NodeId(8) }],
            copies_sent: 1,
            copies: 2,
            bytes: 3,
            warnings: vec![text("of something")],
            refused: None,
        };
        let (seven, eight) = ("0000000000000007", "0000000000000008");
        let expected = json!({
            "epoch": 4,
            "changes": [
                { "change": "join", "node": "n5", "rack": "r1" },
                { "change": "leave", "node": "n1" },
            ],
            "loads": [{
                "node": seven, "before": null, "after": 3, "replicas_before": 0,
                "replicas_after": 9,
            }],
            "moves": [{ "partition": 3, "from": seven, "to": eight }],
            "replicas_sent": 1, "replicas": 2, "bytes": 3, "warnings": ["of something"],
            "refused": null,
        });
        let reply = RingPlan::from(&plan);
        assert_eq!(serde_json::to_value(&reply).ok(), Some(expected.clone()));
        assert_eq!(serde_json::from_value::<RingPlan>(expected).ok(), Some(reply));
    }

    #[test]
    fn ring_transfers_json_form_is_pinned() {
        let transfer = base::RingTransfer { node: NodeId(7), rate: 9, ..Default::default() };
        let transfers = base::RingTransfers { epoch: 3, left: 4, nodes: vec![transfer] };
        let expected = json!({
            "epoch": 3, "remaining": 4,
            "nodes": [{
                "node": "0000000000000007", "receiving": 0, "received": 0, "rows": 0, "bytes": 0,
                "bytes_left": null, "bytes_per_second": 9, "eta_ms": null, "clearing": 0,
                "waits_for": "",
            }],
        });
        assert_eq!(serde_json::to_value(RingTransfers::from(&transfers)).ok(), Some(expected));
    }
}

//! The ring of available buckets: its owners, its changes and how far they are.

use crate::number::{HexId, Whole};
use crate::schema::{MemberName, RackName};
use base::RingDescription;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Owners of the partitions of available buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ring {
    /// The ring's epoch; 0: it was never given out.
    pub epoch: u64,
    /// The owner of each partition, in order.
    pub owners: Vec<HexId>,
}

/// A change of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub enum RingChange {
    /// A member is to keep its part.
    Join {
        /// The member's name.
        #[schemars(with = "MemberName")]
        node: String,
        /// Rack: the nodes that fail together with it; null: one of its own.
        #[schemars(with = "Option<RackName>")]
        rack: Option<String>,
    },
    /// A member gives its part up.
    Leave {
        /// The member's name.
        #[schemars(with = "MemberName")]
        node: String,
    },
    /// A member that keeps nothing is to keep what another one keeps.
    Replace {
        /// Name of the member that goes.
        #[schemars(with = "MemberName")]
        node: String,
        /// Name of the member that takes its place.
        #[schemars(with = "MemberName")]
        by: String,
        /// Rack: the nodes that fail together with it; null: one of its own.
        #[schemars(with = "Option<RackName>")]
        rack: Option<String>,
    },
    /// A member stands in another rack.
    Rack {
        /// The member's name.
        #[schemars(with = "MemberName")]
        node: String,
        /// Its rack; empty: one of its own.
        #[schemars(with = "RackName")]
        rack: String,
    },
    /// Twice as many partitions.
    Double {},
    /// Half as many partitions.
    Halve {},
}

/// Epoch of the ring for which a plan is begun.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RingEpoch {
    /// The epoch; null: whatever it is.
    pub epoch: Option<Whole>,
}

/// Planned changes of the ring, and what they would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingPlan {
    /// The epoch of the ring that it changes.
    pub epoch: u64,
    /// The changes, in the order in which they were planned.
    pub changes: Vec<RingChange>,
    /// Partitions by node, before and after.
    pub loads: Vec<RingLoad>,
    /// Partitions whose first owner changes.
    pub moves: Vec<RingMove>,
    /// Replicas of partitions that are sent.
    pub replicas_sent: u64,
    /// Replicas of partitions that there are.
    pub replicas: u64,
    /// Estimated bytes that are sent.
    pub bytes: u64,
    /// Warnings: what will be less than is wanted.
    pub warnings: Vec<String>,
    /// Reason why the plan can't be begun; null: it can.
    pub refused: Option<String>,
}

/// Load of a node before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingLoad {
    /// The node's durable id.
    pub node: HexId,
    /// Partitions of which it is the first owner before; null: it is not on the ring.
    pub before: Option<u64>,
    /// Partitions of which it is the first owner after; null: it is not on the ring.
    pub after: Option<u64>,
    /// Replicas that it keeps before.
    pub replicas_before: u64,
    /// Replicas that it keeps after.
    pub replicas_after: u64,
}

/// A partition whose first owner changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingMove {
    /// The partition.
    pub partition: u32,
    /// The owner that gives it.
    pub from: HexId,
    /// The owner that gets it.
    pub to: HexId,
}

/// Progress of the ring's change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingTransfers {
    /// The ring's epoch.
    pub epoch: u64,
    /// Partitions that have not gone over.
    pub remaining: u64,
    /// Progress by node.
    pub nodes: Vec<RingTransfer>,
}

/// Progress of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingTransfer {
    /// The node's durable id.
    pub node: HexId,
    /// Replicas that it is to receive.
    pub receiving: u64,
    /// Replicas that it has received.
    pub received: u64,
    /// Rows received.
    pub rows: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Estimated bytes that are still to come; null: not known yet.
    pub bytes_left: Option<u64>,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Estimated time until it is complete; null: not known yet.
    pub eta_ms: Option<u64>,
    /// Replicas that it still has to clear.
    pub clearing: u64,
    /// Condition that it waits for; empty: nothing.
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
        let one = |one: &base::RingMove| RingMove {
            partition: one.partition,
            from: one.from.into(),
            to: one.to.into(),
        };
        RingPlan {
            epoch: plan.epoch,
            changes: plan.changes.iter().map(RingChange::from).collect(),
            loads: plan.loads.iter().map(load).collect(),
            moves: plan.moves.iter().map(one).collect(),
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
        let one = |one: &base::RingTransfer| RingTransfer {
            node: one.node.into(),
            receiving: one.receiving,
            received: one.received,
            rows: one.rows,
            bytes: one.bytes,
            bytes_left: one.bytes_left,
            bytes_per_second: one.rate,
            eta_ms: one.eta_ms,
            clearing: one.clearing,
            waits_for: one.waits_for.clone(),
        };
        let nodes = transfers.nodes.iter().map(one).collect();
        RingTransfers { epoch: transfers.epoch, remaining: transfers.left, nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;
    use serde_json::json;

    #[test]
    fn plans_have_one_form() {
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
            let read = serde_json::to_value(RingChange::from(change)).and_then(|json| {
                serde_json::from_value::<RingChange>(json).map(base::RingChange::from)
            });
            assert_eq!(read.ok().as_ref(), Some(change));
        }
        let (node, before) = (NodeId(7), None);
        let load =
            base::RingLoad { node, before, after: Some(3), copies_before: 0, copies_after: 9 };
        let shown = base::RingPlan {
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
        let wanted = json!({
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
        let plan = RingPlan::from(&shown);
        assert_eq!(serde_json::to_value(&plan).ok(), Some(wanted.clone()));
        assert_eq!(serde_json::from_value::<RingPlan>(wanted).ok(), Some(plan));
    }

    #[test]
    fn transfers_have_one_form() {
        let one = base::RingTransfer { node: NodeId(7), rate: 9, ..Default::default() };
        let shown = base::RingTransfers { epoch: 3, left: 4, nodes: vec![one] };
        let wanted = json!({
            "epoch": 3, "remaining": 4,
            "nodes": [{
                "node": "0000000000000007", "receiving": 0, "received": 0, "rows": 0, "bytes": 0,
                "bytes_left": null, "bytes_per_second": 9, "eta_ms": null, "clearing": 0,
                "waits_for": "",
            }],
        });
        assert_eq!(serde_json::to_value(RingTransfers::from(&shown)).ok(), Some(wanted));
    }
}

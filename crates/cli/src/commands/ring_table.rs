//! Output of the ring, of a plan to change it, and of the progress of a change.

use crate::output::{self, printable_text};
use api::{ClusterStatus, HexId, Ring, RingChange, RingPlan, RingTransfers};
use indicatif::HumanBytes;
use program::Outcome;
use std::collections::BTreeMap;

/// Members' names by their ids.
pub struct MemberNames(BTreeMap<HexId, String>);

impl MemberNames {
    /// Returns the names of the members in the answer of `GET /v1/cluster`.
    pub fn of(cluster: &ClusterStatus) -> MemberNames {
        let members = cluster.members.iter();
        MemberNames(members.map(|member| (member.node, printable_text(&member.name))).collect())
    }

    /// Returns true if a member has this name or this id.
    pub fn has(&self, node: &str) -> bool {
        self.0.iter().any(|(id, name)| id.to_string() == node || name == node)
    }

    /// Returns a member's name, or the id of a former member.
    fn name(&self, node: HexId) -> String {
        self.0.get(&node).cloned().unwrap_or_else(|| node.to_string())
    }
}

/// Returns the number of partitions of each member, by name, including members without any.
pub fn shares(ring: &Ring, names: &MemberNames) -> Vec<Vec<String>> {
    let mut counts: BTreeMap<String, usize> =
        names.0.values().map(|name| (name.clone(), 0)).collect();
    for owner in &ring.owners {
        *counts.entry(names.name(*owner)).or_default() += 1;
    }
    counts.into_iter().map(|(name, count)| vec![name, count.to_string()]).collect()
}

/// Prints a plan: the changes, each member's part, and the amount of data to move.
pub fn show_plan(plan: &RingPlan, names: &MemberNames) -> Outcome {
    if plan.changes.is_empty() {
        return output::text("no change of the ring is planned\n");
    }
    let changes: Vec<String> = plan.changes.iter().map(describe_change).collect();
    output::text(&format!("planned: {}\n", changes.join(", ")))?;
    if let Some(refused) = &plan.refused {
        return output::text(&format!("it can't begin now: {refused}\n"));
    }
    output::text("\n")?;
    output::table(&["member", "partitions", "copies"], loads(plan, names))?;
    output::text(&format!("\n{}\n", moves(plan)))?;
    for warning in &plan.warnings {
        output::text(&format!("warning: {}\n", printable_text(warning)))?;
    }
    output::text("`credenza cluster ring commit` begins it, `clear` takes it back\n")
}

fn describe_change(change: &RingChange) -> String {
    let in_rack = |rack: &str| match rack.is_empty() {
        true => String::new(),
        false => format!(" in rack {rack}"),
    };
    match change {
        RingChange::Join { node, rack } => {
            format!("join {node}{}", in_rack(rack.as_deref().unwrap_or_default()))
        }
        RingChange::Leave { node } => format!("leave {node}"),
        RingChange::Replace { node, by: successor, rack } => {
            format!("replace {node} by {successor}{}", in_rack(rack.as_deref().unwrap_or_default()))
        }
        RingChange::Rack { node, rack } => format!("rack {node}{}", in_rack(rack)),
        RingChange::Double {} => "twice as many partitions".into(),
        RingChange::Halve {} => "half as many partitions".into(),
    }
}

fn loads(plan: &RingPlan, names: &MemberNames) -> Vec<Vec<String>> {
    let share = |share: Option<u64>| share.map_or("-".into(), |partitions| partitions.to_string());
    let row = |load: &api::RingLoad| {
        vec![
            names.name(load.node),
            format!("{} -> {}", share(load.before), share(load.after)),
            format!("{} -> {}", load.replicas_before, load.replicas_after),
        ]
    };
    plan.loads.iter().map(row).collect()
}

fn moves(plan: &RingPlan) -> String {
    if plan.changes.iter().any(|change| matches!(change, RingChange::Double {})) {
        return "each partition becomes two; no copy moves".into();
    }
    format!(
        "{} partitions change their owner, {} of {} copies move, about {}",
        plan.moves.len(),
        plan.replicas_sent,
        plan.replicas,
        HumanBytes(plan.bytes)
    )
}

/// Prints the progress of each node.
pub fn show_transfers(transfers: &RingTransfers, names: &MemberNames) -> Outcome {
    output::text(&format!("epoch {}: ", transfers.epoch))?;
    match transfers.remaining {
        0 => output::text("nothing is to go over\n\n")?,
        left => output::text(&format!("{left} partitions are to go over\n\n"))?,
    }
    let head = ["member", "receives", "bytes", "left", "a second", "takes", "clears", "waits for"];
    output::table(&head, transfer_rows(transfers, names))
}

fn transfer_rows(transfers: &RingTransfers, names: &MemberNames) -> Vec<Vec<String>> {
    let row = |node: &api::RingTransfer| {
        let eta = node.eta_ms.map(|ms| format!("{} s", ms.div_ceil(1_000)));
        vec![
            names.name(node.node),
            node.receiving.to_string(),
            HumanBytes(node.bytes).to_string(),
            node.bytes_left.map_or("-".into(), |left| HumanBytes(left).to_string()),
            HumanBytes(node.bytes_per_second).to_string(),
            eta.unwrap_or("-".into()),
            node.clearing.to_string(),
            printable_text(&node.waits_for),
        ]
    };
    transfers.nodes.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn names() -> MemberNames {
        let member = |node: &str, name: &str| json!({ "node": node, "name": name });
        let members = json!([member("0a", "n1"), member("0b", "n2"), member("0d", "n3")]);
        MemberNames::of(&from_value(json!({ "members": members })).expect("a cluster"))
    }

    #[test]
    fn ring_shares_list_partitions_by_owner_name_including_zero() {
        let ring = Ring { epoch: 2, owners: [10, 11, 10, 12].map(HexId).into() };
        let rows = shares(&ring, &names());
        let expected = [["000000000000000c", "1"], ["n1", "2"], ["n2", "1"], ["n3", "0"]];
        assert_eq!(rows, expected.map(|row| row.map(String::from).to_vec()));
    }

    #[test]
    fn ring_plan_and_transfers_are_rendered_with_names_and_units() {
        let (node, by, rack) = ("n1".into(), "n3".into(), Some("r1".into()));
        let load = api::RingLoad {
            node: HexId(13),
            after: Some(12),
            replicas_after: 36,
            ..Default::default()
        };
        let plan = RingPlan {
            changes: vec![RingChange::Replace { node, by, rack }],
            loads: vec![load],
            moves: vec![Default::default(); 2],
            replicas_sent: 36,
            replicas: 192,
            bytes: 2_048,
            ..Default::default()
        };
        assert_eq!(describe_change(&plan.changes[0]), "replace n1 by n3 in rack r1");
        assert_eq!(
            loads(&plan, &names()),
            [["n3", "- -> 12", "0 -> 36"].map(String::from).to_vec()]
        );
        let expected = "2 partitions change their owner, 36 of 192 copies move, about 2.00 KiB";
        assert_eq!(moves(&plan), expected);
        let double = RingPlan { changes: vec![RingChange::Double {}], ..Default::default() };
        assert_eq!(describe_change(&double.changes[0]), "twice as many partitions");
        assert_eq!(moves(&double), "each partition becomes two; no copy moves");
        let id = HexId(10).to_string();
        assert!(names().has("n1") && names().has(&id) && !names().has("n9"));
        let transfer = api::RingTransfer {
            node: HexId(11),
            receiving: 3,
            bytes: 1_024,
            eta_ms: Some(1_500),
            ..Default::default()
        };
        let transfers = RingTransfers { nodes: vec![transfer], ..Default::default() };
        let row = &transfer_rows(&transfers, &names())[0];
        assert_eq!(row[..6], ["n2", "3", "1.00 KiB", "-", "0 B", "2 s"].map(String::from));
    }
}

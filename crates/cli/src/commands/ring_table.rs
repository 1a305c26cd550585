//! Output of the ring, of a plan to change it, and of the progress of a change.

use super::bucket::plain;
use crate::output;
use program::Outcome;
use serde_json::Value;
use std::collections::BTreeMap;

/// Members' names by their ids.
pub struct MemberNames(BTreeMap<String, String>);

impl MemberNames {
    /// Returns the names of the members in the answer of `GET /v1/cluster`.
    pub fn of(cluster: &Value) -> MemberNames {
        let members = cluster["members"].as_array().into_iter().flatten();
        MemberNames(
            members.map(|member| (plain(&member["node"]), plain(&member["name"]))).collect(),
        )
    }

    /// Returns true if a member has this name or this id.
    pub fn has(&self, node: &str) -> bool {
        self.0.iter().any(|(id, name)| id == node || name == node)
    }

    /// Returns a member's name, or the id of a former member.
    fn name(&self, node: &Value) -> String {
        let id = plain(node);
        self.0.get(&id).cloned().unwrap_or(id)
    }
}

/// Returns the number of partitions of each member, by name, including members without any.
pub fn shares(ring: &Value, names: &MemberNames) -> Vec<Vec<String>> {
    let mut counts: BTreeMap<String, usize> =
        names.0.values().map(|name| (name.clone(), 0)).collect();
    for owner in ring["owners"].as_array().into_iter().flatten() {
        *counts.entry(names.name(owner)).or_default() += 1;
    }
    counts.into_iter().map(|(name, count)| vec![name, count.to_string()]).collect()
}

/// Prints a plan: the changes, each member's part, and the amount of data to move.
pub fn show_plan(plan: &Value, names: &MemberNames) -> Outcome {
    let changes: Vec<String> =
        plan["changes"].as_array().into_iter().flatten().map(change).collect();
    if changes.is_empty() {
        return output::text("no change of the ring is planned\n");
    }
    output::text(&format!("planned: {}\n", changes.join(", ")))?;
    if let Some(refused) = plan["refused"].as_str() {
        return output::text(&format!("it can't begin now: {refused}\n"));
    }
    output::text("\n")?;
    output::table(&["member", "partitions", "copies"], loads(plan, names))?;
    output::text(&format!("\n{}\n", moves(plan)))?;
    for warning in plan["warnings"].as_array().into_iter().flatten() {
        output::text(&format!("warning: {}\n", plain(warning)))?;
    }
    output::text("`credenza cluster ring commit` begins it, `clear` takes it back\n")
}

fn change(change: &Value) -> String {
    let mut text = match change["change"].as_str() {
        Some("double") => "twice as many partitions".into(),
        Some("halve") => "half as many partitions".into(),
        _ => plain(&change["change"]),
    };
    for (field, front) in [("node", " "), ("by", " by "), ("rack", " in rack ")] {
        if let Some(word) = change[field].as_str().filter(|word| !word.is_empty()) {
            text.push_str(front);
            text.push_str(word);
        }
    }
    text
}

fn loads(plan: &Value, names: &MemberNames) -> Vec<Vec<String>> {
    let loads = plan["loads"].as_array().into_iter().flatten();
    let row = |load: &Value| {
        let share = |name: &str| load[name].as_u64().map_or("-".into(), |it| it.to_string());
        vec![
            names.name(&load["node"]),
            format!("{} -> {}", share("before"), share("after")),
            format!("{} -> {}", share("replicas_before"), share("replicas_after")),
        ]
    };
    loads.map(row).collect()
}

fn moves(plan: &Value) -> String {
    let number = |name: &str| plan[name].as_u64().unwrap_or(0);
    let moved = plan["moves"].as_array().map_or(0, Vec::len);
    let mut changes = plan["changes"].as_array().into_iter().flatten();
    if changes.any(|change| change["change"] == "double") {
        return "each partition becomes two; no copy moves".into();
    }
    format!(
        "{moved} partitions change their owner, {} of {} copies move, about {}",
        number("replicas_sent"),
        number("replicas"),
        indicatif::HumanBytes(number("bytes"))
    )
}

/// Prints the progress of each node.
pub fn show_transfers(transfers: &Value, names: &MemberNames) -> Outcome {
    let left = transfers["remaining"].as_u64().unwrap_or(0);
    output::text(&format!("epoch {}: ", plain(&transfers["epoch"])))?;
    match left {
        0 => output::text("nothing is to go over\n\n")?,
        left => output::text(&format!("{left} partitions are to go over\n\n"))?,
    }
    let head = ["member", "receives", "bytes", "left", "a second", "takes", "clears", "waits for"];
    output::table(&head, transfer_rows(transfers, names))
}

fn transfer_rows(transfers: &Value, names: &MemberNames) -> Vec<Vec<String>> {
    let nodes = transfers["nodes"].as_array().into_iter().flatten();
    let row = |node: &Value| {
        let bytes = |name: &str| match node[name].as_u64() {
            Some(bytes) => indicatif::HumanBytes(bytes).to_string(),
            None => "-".into(),
        };
        let takes = match node["eta_ms"].as_u64() {
            Some(ms) => format!("{} s", ms.div_ceil(1_000)),
            None => "-".into(),
        };
        vec![
            names.name(&node["node"]),
            plain(&node["receiving"]),
            bytes("bytes"),
            bytes("bytes_left"),
            bytes("bytes_per_second"),
            takes,
            plain(&node["clearing"]),
            plain(&node["waits_for"]),
        ]
    };
    nodes.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names() -> MemberNames {
        let member = |node: &str, name: &str| json!({ "node": node, "name": name });
        let members = json!([member("0a", "n1"), member("0b", "n2"), member("0d", "n3")]);
        MemberNames::of(&json!({ "members": members }))
    }

    #[test]
    fn owners_are_counted_by_name_and_whoever_has_none_is_named() {
        let ring = json!({ "epoch": 2, "owners": ["0a", "0b", "0a", "0c"] });
        let rows = shares(&ring, &names());
        let expected = [["0c", "1"], ["n1", "2"], ["n2", "1"], ["n3", "0"]];
        assert_eq!(rows, expected.map(|row| row.map(String::from).to_vec()));
    }

    #[test]
    fn a_plan_and_its_progress_are_shown_in_names_and_units() {
        let plan = json!({
            "changes": [{ "change": "replace", "node": "n1", "by": "n3", "rack": "r1" }],
            "loads": [{ "node": "0d", "before": null, "after": 12, "replicas_before": 0,
                        "replicas_after": 36 }],
            "moves": [{}, {}], "replicas_sent": 36, "replicas": 192, "bytes": 2_048,
        });
        assert_eq!(change(&plan["changes"][0]), "replace n1 by n3 in rack r1");
        assert_eq!(
            loads(&plan, &names()),
            [["n3", "- -> 12", "0 -> 36"].map(String::from).to_vec()]
        );
        let wanted = "2 partitions change their owner, 36 of 192 copies move, about 2.00 KiB";
        assert_eq!(moves(&plan), wanted);
        let double = json!({ "changes": [{ "change": "double" }], "moves": [], "replicas": 384 });
        assert_eq!(change(&double["changes"][0]), "twice as many partitions");
        assert_eq!(moves(&double), "each partition becomes two; no copy moves");
        assert!(names().has("n1") && names().has("0a") && !names().has("n9"));
        let transfers = json!({ "nodes": [{
            "node": "0b", "receiving": 3, "bytes": 1_024, "bytes_left": null,
            "bytes_per_second": 0, "eta_ms": 1_500, "clearing": 0, "waits_for": "",
        }] });
        let row = &transfer_rows(&transfers, &names())[0];
        assert_eq!(row[..6], ["n2", "3", "1.00 KiB", "-", "0 B", "2 s"].map(String::from));
    }
}

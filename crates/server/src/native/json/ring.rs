//! Changes of the ring, plans and progress in JSON, both ways.

use super::blob::Whole;
use super::bodies::read_plain;
use super::cluster::id_text;
use super::write::{list_onto, number_onto, text_onto};
use base::{Error, NodeId, RingChange, RingLoad, RingMove, RingPlan, RingTransfer, RingTransfers};
use serde::Deserialize;
use serde_json::Value;

/// A change as it is said.
#[derive(Deserialize)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
enum RingWishBody {
    Join { node: String, rack: Option<String> },
    Leave { node: String },
    Replace { node: String, by: String, rack: Option<String> },
    Rack { node: String, rack: String },
    Double {},
    Halve {},
}

/// A change of the ring.
pub fn change(body: &[u8]) -> Result<RingChange, Error> {
    Ok(match read_plain::<RingWishBody>(body)? {
        RingWishBody::Join { node, rack } => {
            RingChange::Join { node, rack: rack.unwrap_or_default() }
        }
        RingWishBody::Leave { node } => RingChange::Leave { node },
        RingWishBody::Replace { node, by, rack } => {
            RingChange::Replace { node, by, rack: rack.unwrap_or_default() }
        }
        RingWishBody::Rack { node, rack } => RingChange::Rack { node, rack },
        RingWishBody::Double {} => RingChange::Double,
        RingWishBody::Halve {} => RingChange::Halve,
    })
}

/// For which epoch of the ring a plan is begun; an empty body: whatever it is.
pub fn epoch(body: &[u8]) -> Result<Option<u64>, Error> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Commit {
        epoch: Option<Whole>,
    }
    let commit = if body.is_empty() { Commit::default() } else { read_plain(body)? };
    Ok(commit.epoch.map(|epoch| epoch.0))
}

/// A plan as fields, without braces around.
pub fn plan_onto(out: &mut Vec<u8>, plan: &RingPlan) {
    numbers_onto(out, &[("epoch", Some(plan.epoch))]);
    out.extend_from_slice(b",\"changes\":");
    list_onto(out, &plan.changes, change_onto);
    out.extend_from_slice(b",\"loads\":");
    list_onto(out, &plan.loads, |out, load| {
        let RingLoad { node, before, after, copies_before, copies_after } = load;
        node_onto(out, "{\"node\":", *node);
        out.push(b',');
        let copies =
            [("replicas_before", Some(*copies_before)), ("replicas_after", Some(*copies_after))];
        numbers_onto(out, &[("before", *before), ("after", *after), copies[0], copies[1]]);
        out.push(b'}');
    });
    out.extend_from_slice(b",\"moves\":");
    list_onto(out, &plan.moves, |out, RingMove { partition, from, to }| {
        out.extend_from_slice(b"{\"partition\":");
        number_onto(out, partition);
        node_onto(out, ",\"from\":", *from);
        node_onto(out, ",\"to\":", *to);
        out.push(b'}');
    });
    out.push(b',');
    let sent = [("replicas_sent", Some(plan.copies_sent)), ("replicas", Some(plan.copies))];
    numbers_onto(out, &[sent[0], sent[1], ("bytes", Some(plan.bytes))]);
    out.extend_from_slice(b",\"warnings\":");
    list_onto(out, &plan.warnings, |out, warning| text_onto(out, warning));
    out.extend_from_slice(b",\"refused\":");
    match &plan.refused {
        Some(refused) => text_onto(out, refused),
        None => out.extend_from_slice(b"null"),
    }
}

/// A change in JSON.
pub fn change_onto(out: &mut Vec<u8>, change: &RingChange) {
    out.extend_from_slice(b"{\"change\":");
    text_onto(out, change.word());
    let fields: &[(&str, &String)] = match change {
        RingChange::Join { node, rack } | RingChange::Rack { node, rack } => {
            &[("node", node), ("rack", rack)]
        }
        RingChange::Leave { node } => &[("node", node)],
        RingChange::Replace { node, by, rack } => &[("node", node), ("by", by), ("rack", rack)],
        RingChange::Double | RingChange::Halve => &[],
    };
    for (name, text) in fields {
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
        text_onto(out, text);
    }
    out.push(b'}');
}

/// How far a change is as fields, without braces around.
pub fn transfers_onto(out: &mut Vec<u8>, transfers: &RingTransfers) {
    numbers_onto(out, &[("epoch", Some(transfers.epoch)), ("remaining", Some(transfers.left))]);
    out.extend_from_slice(b",\"nodes\":");
    list_onto(out, &transfers.nodes, |out, one| {
        node_onto(out, "{\"node\":", one.node);
        out.push(b',');
        numbers_onto(
            out,
            &[
                ("receiving", Some(one.receiving)),
                ("received", Some(one.received)),
                ("rows", Some(one.rows)),
                ("bytes", Some(one.bytes)),
                ("bytes_left", one.bytes_left),
                ("bytes_per_second", Some(one.rate)),
                ("eta_ms", one.eta_ms),
                ("clearing", Some(one.clearing)),
            ],
        );
        out.extend_from_slice(b",\"waits_for\":");
        text_onto(out, &one.waits_for);
        out.push(b'}');
    });
}

fn node_onto(out: &mut Vec<u8>, front: &str, node: NodeId) {
    out.extend_from_slice(front.as_bytes());
    text_onto(out, &id_text(node.0));
}

fn numbers_onto(out: &mut Vec<u8>, fields: &[(&str, Option<u64>)]) {
    for (at, (name, number)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(format!("\"{name}\":").as_bytes());
        match number {
            Some(number) => number_onto(out, number),
            None => out.extend_from_slice(b"null"),
        }
    }
}

fn id(json: &Value) -> Option<NodeId> {
    u64::from_str_radix(json.as_str()?, 16).ok().map(NodeId)
}

/// From JSON back to a plan.
pub fn plan(json: &Value) -> Option<RingPlan> {
    let number = |name: &str| json[name].as_u64();
    let change = |json: &Value| change(json.to_string().as_bytes()).ok();
    let load = |json: &Value| {
        Some(RingLoad {
            node: id(&json["node"])?,
            before: json["before"].as_u64(),
            after: json["after"].as_u64(),
            copies_before: json["replicas_before"].as_u64()?,
            copies_after: json["replicas_after"].as_u64()?,
        })
    };
    let one = |json: &Value| {
        let partition = u32::try_from(json["partition"].as_u64()?).ok()?;
        Some(RingMove { partition, from: id(&json["from"])?, to: id(&json["to"])? })
    };
    let warning = |json: &Value| json.as_str().map(String::from);
    Some(RingPlan {
        epoch: number("epoch")?,
        changes: json["changes"].as_array()?.iter().map(change).collect::<Option<_>>()?,
        loads: json["loads"].as_array()?.iter().map(load).collect::<Option<_>>()?,
        moves: json["moves"].as_array()?.iter().map(one).collect::<Option<_>>()?,
        copies_sent: number("replicas_sent")?,
        copies: number("replicas")?,
        bytes: number("bytes")?,
        warnings: json["warnings"].as_array()?.iter().map(warning).collect::<Option<_>>()?,
        refused: json["refused"].as_str().map(String::from),
    })
}

/// From JSON back to how far a change is.
pub fn transfers(json: &Value) -> Option<RingTransfers> {
    let one = |json: &Value| {
        let number = |name: &str| json[name].as_u64();
        Some(RingTransfer {
            node: id(&json["node"])?,
            receiving: number("receiving")?,
            received: number("received")?,
            rows: number("rows")?,
            bytes: number("bytes")?,
            bytes_left: number("bytes_left"),
            rate: number("bytes_per_second")?,
            eta_ms: number("eta_ms"),
            clearing: number("clearing")?,
            waits_for: json["waits_for"].as_str()?.to_string(),
        })
    };
    Some(RingTransfers {
        epoch: json["epoch"].as_u64()?,
        left: json["remaining"].as_u64()?,
        nodes: json["nodes"].as_array()?.iter().map(one).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(fill: impl FnOnce(&mut Vec<u8>)) -> Value {
        let mut out = vec![b'{'];
        fill(&mut out);
        out.push(b'}');
        serde_json::from_slice(&out).expect("it is JSON")
    }

    #[test]
    fn plans_and_transfers_read_back() {
        let (node, text) = (NodeId(7), |text: &str| text.to_string());
        let changes = vec![
            RingChange::Join { node: text("n5"), rack: text("r1") },
            RingChange::Leave { node: text("n1") },
            RingChange::Replace { node: text("n2"), by: text("n6"), rack: text("") },
            RingChange::Rack { node: text("n3"), rack: text("") },
            RingChange::Double,
            RingChange::Halve,
        ];
        let load =
            RingLoad { node, before: None, after: Some(3), copies_before: 0, copies_after: 9 };
        let shown = RingPlan {
            epoch: 4,
            changes,
            loads: vec![load],
            moves: vec![RingMove { partition: 3, from: node, to: NodeId(8) }],
            copies_sent: 1,
            copies: 2,
            bytes: 3,
            warnings: vec![text("of something")],
            refused: Some(text("too few")),
        };
        assert_eq!(plan(&whole(|out| plan_onto(out, &shown))), Some(shown));
        let one = RingTransfer { node, bytes_left: Some(7), rate: 9, ..RingTransfer::default() };
        let nodes = vec![one, RingTransfer { waits_for: text("n2"), ..RingTransfer::default() }];
        let told = RingTransfers { epoch: 3, left: 4, nodes };
        assert_eq!(transfers(&whole(|out| transfers_onto(out, &told))), Some(told));
    }

    #[test]
    fn a_change_says_what_it_needs_and_nothing_else() {
        for good in [
            r#"{"change":"join","node":"n5"}"#,
            r#"{"change":"rack","node":"n5","rack":""}"#,
            r#"{"change":"double"}"#,
        ] {
            assert!(change(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            r#"{"change":"join"}"#,
            r#"{"change":"leave","node":"n5","by":"n6"}"#,
            r#"{"change":"double","node":"n5"}"#,
            r#"{"change":"grow"}"#,
            r#"{"node":"n5"}"#,
        ] {
            assert!(change(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}

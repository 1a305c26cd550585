//! Examples of calls and answers about a ring that changes.

use super::examples::ExampleData;
use crate::ring::{
    RingCall, RingChange, RingLoad, RingMove, RingPlan, RingTransfer, RingTransfers,
};
use crate::{Body, Call, DirectoryCall, NodeId, Partition};

fn changes(data: &ExampleData) -> Vec<RingChange> {
    let rack = || if data.flag { "r1".to_string() } else { String::new() };
    let (node, by) = (|| "n1".to_string(), "n2".to_string());
    vec![
        RingChange::Join { node: node(), rack: rack() },
        RingChange::Leave { node: node() },
        RingChange::Replace { node: node(), by, rack: rack() },
        RingChange::Rack { node: node(), rack: rack() },
        RingChange::Double,
        RingChange::Halve,
    ]
}

pub fn calls(data: &ExampleData) -> Vec<Call> {
    let [one, two] = data.numbers;
    let (partition, node) = (Partition(data.numbers[1] as u32 % 1_024), NodeId(two));
    let mut all = vec![RingCall::Plan];
    all.extend(changes(data).into_iter().map(RingCall::Stage));
    all.extend([
        RingCall::Clear,
        RingCall::Commit { epoch: data.flag.then_some(one) },
        RingCall::Cancel,
        RingCall::Transfers,
        RingCall::Received { since: one, partition, node },
        RingCall::Cleared { partition, partitions: 0, node },
    ]);
    all.into_iter().map(DirectoryCall::Ring).map(Call::Directory).collect()
}

/// Calls that later versions added.
pub fn later_calls(data: &ExampleData) -> Vec<Call> {
    let partition = Partition(data.numbers[1] as u32 % 1_024);
    let cleared = RingCall::Cleared { partition, partitions: 1_024, node: NodeId(data.numbers[1]) };
    vec![Call::Directory(DirectoryCall::Ring(cleared))]
}

pub fn bodies(data: &ExampleData) -> Vec<Body> {
    let [one, two] = data.numbers;
    let optional = data.flag.then_some(two);
    let node = NodeId(one);
    let plan = RingPlan {
        epoch: one,
        changes: changes(data),
        loads: vec![RingLoad {
            node,
            before: optional,
            after: Some(one),
            copies_before: one,
            copies_after: two,
        }],
        moves: vec![RingMove { partition: two as u32, from: node, to: NodeId(two) }],
        copies_sent: one,
        copies: two,
        bytes: one,
        warnings: vec!["of something".into()],
        refused: data.flag.then(|| "too few".to_string()),
    };
    let transfer = RingTransfer {
        node,
        receiving: one,
        received: two,
        rows: one,
        bytes: two,
        bytes_left: optional,
        rate: one,
        eta_ms: optional,
        clearing: two,
        waits_for: "another node".into(),
    };
    vec![
        Body::RingPlan(Box::default()),
        Body::RingPlan(Box::new(plan)),
        Body::RingTransfers(RingTransfers::default()),
        Body::RingTransfers(RingTransfers { epoch: one, left: two, nodes: vec![transfer] }),
    ]
}

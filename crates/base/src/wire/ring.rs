//! Codec of calls about the ring and their answers.

use super::WireResult;
use super::fields::{Fields, Source};
use crate::codec::Malformed;
use crate::limits::{NAME_BYTES_MAX, PARTITIONS_MAX, PEERS_MAX, RING_CHANGES_MAX};
use crate::ring::{
    RingCall, RingChange, RingDescription, RingLoad, RingMove, RingPlan, RingTransfer,
    RingTransfers,
};
use crate::{NodeId, Partition};

/// Most bytes of a warning, or of a reason to refuse or wait.
const WORDS_BYTES_MAX: usize = 4_096;

pub(super) fn put_call<W: Fields>(call: &RingCall, out: &mut W) {
    match call {
        RingCall::Describe => out.byte(0),
        RingCall::Claim => out.byte(1),
        RingCall::Plan => out.byte(2),
        RingCall::Stage(change) => {
            put_change(change, out.byte(3));
            out
        }
        RingCall::Clear => out.byte(4),
        RingCall::Commit { epoch } => out.byte(5).maybe_word(*epoch),
        RingCall::Cancel => out.byte(6),
        RingCall::Transfers => out.byte(7),
        RingCall::Received { since, partition, node } => {
            out.byte(8).word(*since).half(partition.0).word(node.0)
        }
        RingCall::Cleared { partition, of: 0, node } => out.byte(9).half(partition.0).word(node.0),
        RingCall::Cleared { partition, of, node } => {
            out.byte(10).half(partition.0).half(*of).word(node.0)
        }
    };
}

pub(super) fn take_call(from: &mut Source<'_>) -> WireResult<RingCall> {
    Ok(match from.byte("which ring call")? {
        0 => RingCall::Describe,
        1 => RingCall::Claim,
        2 => RingCall::Plan,
        3 => RingCall::Stage(take_change(from)?),
        4 => RingCall::Clear,
        5 => RingCall::Commit { epoch: from.maybe("epoch or none", |from| from.word("epoch"))? },
        6 => RingCall::Cancel,
        7 => RingCall::Transfers,
        8 => RingCall::Received {
            since: from.word("since")?,
            partition: take_partition(from)?,
            node: NodeId(from.word("node")?),
        },
        9 => RingCall::Cleared {
            partition: take_partition(from)?,
            of: 0,
            node: NodeId(from.word("node")?),
        },
        10 => RingCall::Cleared {
            partition: take_partition(from)?,
            of: take_count(from)?,
            node: NodeId(from.word("node")?),
        },
        _ => return Err(Malformed("which ring call")),
    })
}

fn take_partition(from: &mut Source<'_>) -> WireResult<Partition> {
    let partition = from.half("partition")?;
    let known = (partition as usize) < PARTITIONS_MAX;
    if known { Ok(Partition(partition)) } else { Err(Malformed("partition")) }
}

fn take_count(from: &mut Source<'_>) -> WireResult<u32> {
    let count = from.half("partitions")?;
    let known = (1..=PARTITIONS_MAX as u32).contains(&count);
    if known { Ok(count) } else { Err(Malformed("partitions")) }
}

fn put_change<W: Fields>(change: &RingChange, out: &mut W) {
    match change {
        RingChange::Join { node, rack } => put_names(0, &[node, rack], out),
        RingChange::Leave { node } => put_names(1, &[node], out),
        RingChange::Replace { node, by, rack } => put_names(2, &[node, by, rack], out),
        RingChange::Rack { node, rack } => put_names(3, &[node, rack], out),
        RingChange::Double => put_names(4, &[], out),
        RingChange::Halve => put_names(5, &[], out),
    }
}

fn put_names<W: Fields>(which: u8, names: &[&String], out: &mut W) {
    out.byte(which);
    names.iter().for_each(|name| {
        out.bytes(name.as_bytes());
    });
}

fn take_change(from: &mut Source<'_>) -> WireResult<RingChange> {
    let name = |from: &mut Source<'_>| from.text(NAME_BYTES_MAX, "name").map(String::from);
    Ok(match from.byte("which change of the ring")? {
        0 => RingChange::Join { node: name(from)?, rack: name(from)? },
        1 => RingChange::Leave { node: name(from)? },
        2 => RingChange::Replace { node: name(from)?, by: name(from)?, rack: name(from)? },
        3 => RingChange::Rack { node: name(from)?, rack: name(from)? },
        4 => RingChange::Double,
        5 => RingChange::Halve,
        _ => return Err(Malformed("which change of the ring")),
    })
}

pub(super) fn put_ring<W: Fields>(ring: &RingDescription, out: &mut W) {
    out.word(ring.epoch).list(&ring.owners, |owner, out| {
        out.word(owner.0);
    });
}

pub(super) fn take_ring(from: &mut Source<'_>) -> WireResult<RingDescription> {
    Ok(RingDescription {
        epoch: from.word("epoch")?,
        owners: from.list((PARTITIONS_MAX, 8), "how many partitions", |from| {
            from.word("owner").map(NodeId)
        })?,
    })
}

pub(super) fn put_plan<W: Fields>(plan: &RingPlan, out: &mut W) {
    out.word(plan.epoch).list(&plan.changes, put_change);
    out.list(&plan.loads, |load, out| {
        out.word(load.node.0).maybe_word(load.before).maybe_word(load.after);
        out.word(load.copies_before).word(load.copies_after);
    });
    out.list(&plan.moves, |one, out| {
        out.half(one.partition).word(one.from.0).word(one.to.0);
    });
    out.word(plan.copies_sent).word(plan.copies).word(plan.bytes);
    out.list(&plan.warnings, |warning, out| {
        out.bytes(warning.as_bytes());
    });
    out.yes(plan.refused.is_some());
    if let Some(refused) = &plan.refused {
        out.bytes(refused.as_bytes());
    }
}

pub(super) fn take_plan(from: &mut Source<'_>) -> WireResult<RingPlan> {
    let words = |from: &mut Source<'_>| from.text(WORDS_BYTES_MAX, "words").map(String::from);
    Ok(RingPlan {
        epoch: from.word("epoch")?,
        changes: from.list((RING_CHANGES_MAX, 1), "how many changes", take_change)?,
        loads: from.list((2 * PEERS_MAX, 26), "how many nodes", |from| {
            Ok(RingLoad {
                node: NodeId(from.word("node")?),
                before: from.maybe("before or none", |from| from.word("before"))?,
                after: from.maybe("after or none", |from| from.word("after"))?,
                copies_before: from.word("copies before")?,
                copies_after: from.word("copies after")?,
            })
        })?,
        moves: from.list((PARTITIONS_MAX, 20), "how many moves", |from| {
            Ok(RingMove {
                partition: from.half("partition")?,
                from: NodeId(from.word("from")?),
                to: NodeId(from.word("to")?),
            })
        })?,
        copies_sent: from.word("copies sent")?,
        copies: from.word("copies")?,
        bytes: from.word("bytes")?,
        warnings: from.list((4 * PEERS_MAX, 4), "how many warnings", words)?,
        refused: from.maybe("refused or not", words)?,
    })
}

pub(super) fn put_transfers<W: Fields>(transfers: &RingTransfers, out: &mut W) {
    out.word(transfers.epoch).word(transfers.left).list(&transfers.nodes, |it, out| {
        out.word(it.node.0).word(it.receiving).word(it.received).word(it.rows).word(it.bytes);
        out.maybe_word(it.bytes_left).word(it.rate).maybe_word(it.eta_ms).word(it.clearing);
        out.bytes(it.waits_for.as_bytes());
    });
}

pub(super) fn take_transfers(from: &mut Source<'_>) -> WireResult<RingTransfers> {
    Ok(RingTransfers {
        epoch: from.word("epoch")?,
        left: from.word("left")?,
        nodes: from.list((2 * PEERS_MAX, 62), "how many nodes", |from| {
            Ok(RingTransfer {
                node: NodeId(from.word("node")?),
                receiving: from.word("receiving")?,
                received: from.word("received")?,
                rows: from.word("rows")?,
                bytes: from.word("bytes")?,
                bytes_left: from.maybe("bytes left or none", |from| from.word("bytes left"))?,
                rate: from.word("rate")?,
                eta_ms: from.maybe("how long or none", |from| from.word("how long"))?,
                clearing: from.word("clearing")?,
                waits_for: from.text(WORDS_BYTES_MAX, "what it waits for")?.to_string(),
            })
        })?,
    })
}

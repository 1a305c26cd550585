//! Codec of calls about the ring and their answers.

use super::WireResult;
use super::fields::{FieldReader, FieldWriter};
use crate::codec::Malformed;
use crate::limits::{NAME_BYTES_MAX, PARTITIONS_MAX, PEERS_MAX, RING_CHANGES_MAX};
use crate::ring::{
    RingCall, RingChange, RingDescription, RingLoad, RingMove, RingPlan, RingTransfer,
    RingTransfers,
};
use crate::{NodeId, Partition};

/// Most bytes of a warning, or of a reason to refuse or wait.
const TEXT_BYTES_MAX: usize = 4_096;

pub(super) fn put_call<W: FieldWriter>(call: &RingCall, out: &mut W) {
    match call {
        RingCall::Describe => out.u8(0),
        RingCall::Claim => out.u8(1),
        RingCall::Plan => out.u8(2),
        RingCall::Stage(change) => {
            put_change(change, out.u8(3));
            out
        }
        RingCall::Clear => out.u8(4),
        RingCall::Commit { epoch } => out.u8(5).optional_u64(*epoch),
        RingCall::Cancel => out.u8(6),
        RingCall::Transfers => out.u8(7),
        RingCall::Received { since, partition, node } => {
            out.u8(8).u64(*since).u32(partition.0).u64(node.0)
        }
        RingCall::Cleared { partition, partitions: 0, node } => {
            out.u8(9).u32(partition.0).u64(node.0)
        }
        RingCall::Cleared { partition, partitions, node } => {
            out.u8(10).u32(partition.0).u32(*partitions).u64(node.0)
        }
    };
}

pub(super) fn take_call(from: &mut FieldReader<'_>) -> WireResult<RingCall> {
    Ok(match from.u8("kind of ring call")? {
        0 => RingCall::Describe,
        1 => RingCall::Claim,
        2 => RingCall::Plan,
        3 => RingCall::Stage(take_change(from)?),
        4 => RingCall::Clear,
        5 => RingCall::Commit { epoch: from.optional("epoch or none", |from| from.u64("epoch"))? },
        6 => RingCall::Cancel,
        7 => RingCall::Transfers,
        8 => RingCall::Received {
            since: from.u64("since")?,
            partition: take_partition(from)?,
            node: NodeId(from.u64("node")?),
        },
        9 => RingCall::Cleared {
            partition: take_partition(from)?,
            partitions: 0,
            node: NodeId(from.u64("node")?),
        },
        10 => RingCall::Cleared {
            partition: take_partition(from)?,
            partitions: take_partition_count(from)?,
            node: NodeId(from.u64("node")?),
        },
        _ => return Err(Malformed("kind of ring call")),
    })
}

fn take_partition(from: &mut FieldReader<'_>) -> WireResult<Partition> {
    let partition = from.u32("partition")?;
    let valid = (partition as usize) < PARTITIONS_MAX;
    if valid { Ok(Partition(partition)) } else { Err(Malformed("partition")) }
}

fn take_partition_count(from: &mut FieldReader<'_>) -> WireResult<u32> {
    let count = from.u32("partitions")?;
    let valid = (1..=PARTITIONS_MAX as u32).contains(&count);
    if valid { Ok(count) } else { Err(Malformed("partitions")) }
}

fn put_change<W: FieldWriter>(change: &RingChange, out: &mut W) {
    match change {
        RingChange::Join { node, rack } => put_names(0, &[node, rack], out),
        RingChange::Leave { node } => put_names(1, &[node], out),
        RingChange::Replace { node, by, rack } => put_names(2, &[node, by, rack], out),
        RingChange::Rack { node, rack } => put_names(3, &[node, rack], out),
        RingChange::Double => put_names(4, &[], out),
        RingChange::Halve => put_names(5, &[], out),
    }
}

fn put_names<W: FieldWriter>(kind: u8, names: &[&String], out: &mut W) {
    out.u8(kind);
    names.iter().for_each(|name| {
        out.bytes(name.as_bytes());
    });
}

fn take_change(from: &mut FieldReader<'_>) -> WireResult<RingChange> {
    let name = |from: &mut FieldReader<'_>| from.text(NAME_BYTES_MAX, "name").map(String::from);
    Ok(match from.u8("kind of ring change")? {
        0 => RingChange::Join { node: name(from)?, rack: name(from)? },
        1 => RingChange::Leave { node: name(from)? },
        2 => RingChange::Replace { node: name(from)?, by: name(from)?, rack: name(from)? },
        3 => RingChange::Rack { node: name(from)?, rack: name(from)? },
        4 => RingChange::Double,
        5 => RingChange::Halve,
        _ => return Err(Malformed("kind of ring change")),
    })
}

pub(super) fn put_ring<W: FieldWriter>(ring: &RingDescription, out: &mut W) {
    out.u64(ring.epoch).list(&ring.owners, |owner, out| {
        out.u64(owner.0);
    });
}

pub(super) fn take_ring(from: &mut FieldReader<'_>) -> WireResult<RingDescription> {
    Ok(RingDescription {
        epoch: from.u64("epoch")?,
        owners: from.list((PARTITIONS_MAX, 8), "number of partitions", |from| {
            from.u64("owner").map(NodeId)
        })?,
    })
}

pub(super) fn put_plan<W: FieldWriter>(plan: &RingPlan, out: &mut W) {
    out.u64(plan.epoch).list(&plan.changes, put_change);
    out.list(&plan.loads, |load, out| {
        out.u64(load.node.0).optional_u64(load.before).optional_u64(load.after);
        out.u64(load.copies_before).u64(load.copies_after);
    });
    out.list(&plan.moves, |ring_move, out| {
        out.u32(ring_move.partition).u64(ring_move.from.0).u64(ring_move.to.0);
    });
    out.u64(plan.copies_sent).u64(plan.copies).u64(plan.bytes);
    out.list(&plan.warnings, |warning, out| {
        out.bytes(warning.as_bytes());
    });
    out.bool(plan.refused.is_some());
    if let Some(refused) = &plan.refused {
        out.bytes(refused.as_bytes());
    }
}

pub(super) fn take_plan(from: &mut FieldReader<'_>) -> WireResult<RingPlan> {
    let text = |from: &mut FieldReader<'_>| from.text(TEXT_BYTES_MAX, "words").map(String::from);
    Ok(RingPlan {
        epoch: from.u64("epoch")?,
        changes: from.list((RING_CHANGES_MAX, 1), "number of changes", take_change)?,
        loads: from.list((2 * PEERS_MAX, 26), "number of nodes", |from| {
            Ok(RingLoad {
                node: NodeId(from.u64("node")?),
                before: from.optional("before or none", |from| from.u64("before"))?,
                after: from.optional("after or none", |from| from.u64("after"))?,
                copies_before: from.u64("copies before")?,
                copies_after: from.u64("copies after")?,
            })
        })?,
        moves: from.list((PARTITIONS_MAX, 20), "number of moves", |from| {
            Ok(RingMove {
                partition: from.u32("partition")?,
                from: NodeId(from.u64("from")?),
                to: NodeId(from.u64("to")?),
            })
        })?,
        copies_sent: from.u64("copies sent")?,
        copies: from.u64("copies")?,
        bytes: from.u64("bytes")?,
        warnings: from.list((4 * PEERS_MAX, 4), "number of warnings", text)?,
        refused: from.optional("refused or not", text)?,
    })
}

pub(super) fn put_transfers<W: FieldWriter>(transfers: &RingTransfers, out: &mut W) {
    out.u64(transfers.epoch).u64(transfers.left).list(&transfers.nodes, |transfer, out| {
        out.u64(transfer.node.0)
            .u64(transfer.receiving)
            .u64(transfer.received)
            .u64(transfer.rows)
            .u64(transfer.bytes);
        out.optional_u64(transfer.bytes_left)
            .u64(transfer.rate)
            .optional_u64(transfer.eta_ms)
            .u64(transfer.clearing);
        out.bytes(transfer.waits_for.as_bytes());
    });
}

pub(super) fn take_transfers(from: &mut FieldReader<'_>) -> WireResult<RingTransfers> {
    Ok(RingTransfers {
        epoch: from.u64("epoch")?,
        left: from.u64("left")?,
        nodes: from.list((2 * PEERS_MAX, 62), "number of nodes", |from| {
            Ok(RingTransfer {
                node: NodeId(from.u64("node")?),
                receiving: from.u64("receiving")?,
                received: from.u64("received")?,
                rows: from.u64("rows")?,
                bytes: from.u64("bytes")?,
                bytes_left: from.optional("bytes left or none", |from| from.u64("bytes left"))?,
                rate: from.u64("rate")?,
                eta_ms: from
                    .optional("estimated time or none", |from| from.u64("estimated time"))?,
                clearing: from.u64("clearing")?,
                waits_for: from.text(TEXT_BYTES_MAX, "awaited condition")?.to_string(),
            })
        })?,
    })
}

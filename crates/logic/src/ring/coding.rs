//! Codec of the ring: the form that the directory stores and every node reads.
//!
//! Version (1 byte), epoch (8), copies (1), binary logarithm of the number of partitions (1), a
//! layout, and a boolean whether another layout is pending (1); then that one, a boolean whether it
//! halves (1), and the partitions that have arrived (one bit each, the first partition in the
//! lowest bit of the first byte).
//!
//! Version 1 is that of a ring at rest, version 2 of one with a move in progress. In version 2
//! follow, if a layout is pending, the epoch of its change (8) and the receivers of partitions that
//! are done, then the leftovers: a count (4), and in order partitions (4) with nodes (8).
//!
//! A layout: the number of nodes (4), each one's id (8) and rack (length 4, bytes) in the order of
//! ids, then each partition's owner (2) as its place among the nodes. One ring has one form: any
//! other is [`Malformed`].

use super::layout::{Layout, RACK_BYTES_MAX, Rack};
use super::point::check_partitions;
use super::table::{Marks, PendingLayout, REPLICAS_MAX, Ring};
use base::codec::{Malformed, Reader, Writer};
use base::{NodeId, Partition};
use std::collections::{BTreeMap, BTreeSet};

const AT_REST: u8 = 1;
const MOVING: u8 = 2;

impl Ring {
    /// Appends the ring.
    pub fn write(&self, out: &mut Vec<u8>) {
        let moves = self.pending.is_some() || !self.leftovers.is_empty();
        out.put_u8(if moves { MOVING } else { AT_REST });
        out.put_u64(self.epoch);
        out.put_u8(self.n as u8);
        out.put_u8(self.partitions().trailing_zeros() as u8);
        put_layout(&self.layout, out);
        out.put_u8(self.pending.is_some().into());
        if let Some(pending) = &self.pending {
            put_layout(&pending.layout, out);
            out.put_u8(pending.halves.into());
            let mut bits = vec![0; self.layout.owners.len() / 8];
            for partition in &pending.arrived {
                bits[partition.0 as usize / 8] |= 1 << (partition.0 % 8);
            }
            out.extend_from_slice(&bits);
        }
        if let Some(pending) = &self.pending {
            out.put_u64(pending.since);
            put_marks(&pending.received, out);
        }
        if moves {
            put_marks(&self.leftovers, out);
        }
    }

    /// Returns the encoded ring.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Reads a ring; what follows it stays in the reader.
    pub fn read(reader: &mut Reader<'_>) -> Result<Ring, Malformed> {
        let version = reader.u8("the ring's version")?;
        if ![AT_REST, MOVING].contains(&version) {
            return Err(Malformed("the ring's version"));
        }
        let epoch = reader.u64("the ring's epoch")?;
        let n = usize::from(reader.u8("the ring's copies")?);
        if !(1..=REPLICAS_MAX).contains(&n) {
            return Err(Malformed("the ring's copies"));
        }
        let power = u32::from(reader.u8("the ring's partitions")?);
        let partitions = 1_u32.checked_shl(power).filter(|count| check_partitions(*count));
        let partitions = partitions.ok_or(Malformed("the ring's partitions"))?;
        let layout = take_layout(reader, partitions)?;
        let mut pending = match take_bool(reader, "presence of a ring change")? {
            true => Some(take_pending(reader, partitions)?),
            false => None,
        };
        let mut leftovers = Marks::new();
        if version == MOVING {
            if let Some(pending) = &mut pending {
                pending.since = reader.u64("start of the ring change")?;
                pending.received = take_marks(reader, partitions)?;
                if pending.since > epoch
                    || pending.received.iter().any(|it| pending.has_arrived_mark(it))
                {
                    return Err(Malformed("received partitions"));
                }
            }
            leftovers = take_marks(reader, partitions)?;
        }
        if (version == MOVING) != (pending.is_some() || !leftovers.is_empty()) {
            return Err(Malformed("presence of a ring change"));
        }
        Ok(Ring { epoch, n, layout, pending, leftovers })
    }

    /// Decodes a ring from exactly these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Ring, Malformed> {
        let mut reader = Reader::new(bytes);
        let ring = Ring::read(&mut reader)?;
        reader.end("the end of the ring")?;
        Ok(ring)
    }
}

fn put_layout(layout: &Layout, out: &mut Vec<u8>) {
    out.put_u32(layout.nodes.len() as u32);
    for (node, rack) in &layout.nodes {
        out.put_u64(node.0);
        out.put_string(rack.0.as_bytes());
    }
    let place: BTreeMap<_, _> = layout.nodes.keys().zip(0_u16..).collect();
    for owner in &layout.owners {
        out.extend_from_slice(&place[owner].to_le_bytes());
    }
}

fn take_layout(reader: &mut Reader<'_>, partitions: u32) -> Result<Layout, Malformed> {
    let count = reader.u32("the ring's nodes")?;
    if count == 0 || count > partitions {
        return Err(Malformed("the ring's nodes"));
    }
    let mut order: Vec<NodeId> = Vec::with_capacity(count as usize);
    let mut nodes = BTreeMap::new();
    for _ in 0..count {
        let node = NodeId(reader.u64("a node of the ring")?);
        if order.last().is_some_and(|last| *last >= node) {
            return Err(Malformed("the order of the ring's nodes"));
        }
        let rack = reader.string(RACK_BYTES_MAX, "a rack")?;
        let rack = std::str::from_utf8(rack).map_err(|_| Malformed("a rack"))?;
        if rack.chars().any(char::is_control) {
            return Err(Malformed("a rack"));
        }
        order.push(node);
        nodes.insert(node, Rack(rack.to_string()));
    }
    let mut owners = Vec::with_capacity(partitions as usize);
    for _ in 0..partitions {
        let place = reader.take(2, "a partition's owner")?;
        let place = usize::from(u16::from_le_bytes([place[0], place[1]]));
        owners.push(*order.get(place).ok_or(Malformed("a partition's owner"))?);
    }
    Ok(Layout { nodes, owners })
}

fn take_pending(reader: &mut Reader<'_>, partitions: u32) -> Result<PendingLayout, Malformed> {
    let layout = take_layout(reader, partitions)?;
    let halves = take_bool(reader, "halving of the ring")?;
    let bits = reader.take(partitions as usize / 8, "what has arrived")?;
    let has_bit = |partition: &u32| bits[*partition as usize / 8] & (1 << (partition % 8)) != 0;
    let arrived: BTreeSet<_> = (0..partitions).filter(has_bit).map(Partition).collect();
    let is_paired = layout.owners.chunks(2).all(|pair| pair[0] == pair[1]);
    if arrived.len() == partitions as usize || (halves && !is_paired) {
        return Err(Malformed("what has arrived"));
    }
    Ok(PendingLayout { layout, arrived, halves, since: 0, received: Marks::new() })
}

impl PendingLayout {
    fn has_arrived_mark(&self, (partition, _): &(Partition, NodeId)) -> bool {
        self.arrived.contains(partition)
    }
}

fn put_marks(marks: &Marks, out: &mut Vec<u8>) {
    out.put_u32(marks.len() as u32);
    for (partition, node) in marks {
        out.put_u32(partition.0);
        out.put_u64(node.0);
    }
}

fn take_marks(reader: &mut Reader<'_>, partitions: u32) -> Result<Marks, Malformed> {
    let count = reader.u32("marks of the ring")? as usize;
    if count > reader.rest().len() / 12 {
        return Err(Malformed("marks of the ring"));
    }
    let mut marks = Marks::new();
    for _ in 0..count {
        let partition = Partition(reader.u32("a marked partition")?);
        let mark = (partition, NodeId(reader.u64("a marked node")?));
        let is_ascending = marks.last().is_none_or(|last| *last < mark);
        if partition.0 >= partitions || !is_ascending {
            return Err(Malformed("marks of the ring"));
        }
        marks.insert(mark);
    }
    Ok(marks)
}

fn take_bool(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, Malformed> {
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed(field)),
    }
}

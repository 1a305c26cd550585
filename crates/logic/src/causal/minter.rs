//! No dot twice: who a vnode is, and which counter is next.
//!
//! All of causality rests on dots that name one write. A vnode that forgets some of what it wrote
//! (a lost row, a wiped disk, an old copy of the data directory) and counts on from what it still
//! has mints dots that other replicas know as something else: the new write is silently dropped.
//! Two rules keep that from happening.
//!
//! *A row that is missing costs nothing.* The minter knows the highest counter the actor ever used,
//! on any key. Where a key's own row does not hold all of the actor's dots that others name, the
//! next dot lies above all of them, and does not claim to have seen those between: whatever is
//! still out there stays a sibling. This covers deleted keys whose tombstone was collected, rows
//! that were lost, and keys that come home after having been given to another node.
//!
//! *A minter in doubt becomes another actor.* When that highest counter itself may be too low, the
//! incarnation goes up, by a leap that chance decides: a copy of this very directory that wakes up
//! elsewhere leaps somewhere else.

use super::clock::{Clock, Dot};
use base::codec::{Malformed, Reader, Writer};
use base::dots::{COUNT_MAX, CounterSet, DotContext, INCARNATION_MAX};
use base::{Actor, NodeId, varint};

/// Counters are set aside in blocks of so many, so that the record is seldom written.
const RESERVED: u64 = 1_024;
/// A leap of the incarnation is at most this.
const LEAP_MAX: u64 = 1 << 32;
/// The version of a record's bytes.
const VERSION: u8 = 1;

/// Why a vnode can't go on as the actor it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The node did not stop in good order, and writes of some bucket were not synced at once.
    Unsynced,
    /// A piece of the log or the store was lost, cut or found damaged.
    Damaged,
    /// The data directory was put back from a copy.
    Restored,
    /// The vnode was here before, and its record is gone.
    RecordMissing,
    /// A clock or a context names a dot of this actor that it does not know to have minted.
    Ahead,
    /// The actor's counters are used up.
    Exhausted,
}

/// What is found of a vnode when its node starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its record, if there is one.
    pub record: Option<Minter>,
    /// The number of the node's life that begins, from 1. A vnode without a record begins as the
    /// actor of that number: an earlier life's first dots may be known to others and lost here.
    pub life: u64,
    /// Whether this node, under its node id, may ever have held the vnode.
    pub held_before: bool,
    /// Whether writes may have been answered that are not on disk: the node did not stop in good
    /// order, and some bucket does not sync at once.
    pub unsynced: bool,
    /// Whether a piece of the log or the store was lost, cut or found damaged.
    pub damaged: bool,
    /// Whether the data directory was put back from a copy.
    pub restored: bool,
}

impl Start {
    /// A vnode that this node never had, in its first life.
    pub const FIRST: Start = Start {
        record: None,
        life: 1,
        held_before: false,
        unsynced: false,
        damaged: false,
        restored: false,
    };
}

/// A client's write, done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MintedWrite<V> {
    /// The key's row from now on; it is what the other replicas get.
    pub clock: Clock<Actor, V>,
    /// The write's own dot.
    pub dot: Dot<Actor>,
    /// Why the vnode had to become another actor for it, if it had to.
    pub renewed: Option<Doubt>,
}

/// One vnode as a minter of dots. Whoever calls it makes its record durable together with the row
/// it changed, whenever [`Minter::record`] is another than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minter {
    actor: Actor,
    /// The highest counter it ever used, on any key.
    minted: u64,
    /// The highest counter it may use before the record is written again; `minted <= reserved`.
    reserved: u64,
}

impl Minter {
    /// The vnode as found at the start, and why it had to become another actor, if it had to.
    pub fn start(node: NodeId, vnode: u32, found: Start, chance: u64) -> (Minter, Option<Doubt>) {
        let incarnation = found.life.clamp(1, INCARNATION_MAX);
        let first = Actor { node, vnode, incarnation };
        let fresh = Minter { actor: first, minted: 0, reserved: 0 };
        let own = |record: &Minter| (record.actor.node, record.actor.vnode) == (node, vnode);
        let doubt = match found.record {
            None if !found.held_before && !found.restored => return (fresh, None),
            None => Some(Doubt::RecordMissing),
            Some(record) if !own(&record) => Some(Doubt::Restored),
            Some(_) if found.restored => Some(Doubt::Restored),
            Some(_) if found.damaged => Some(Doubt::Damaged),
            Some(_) if found.unsynced => Some(Doubt::Unsynced),
            Some(_) => None,
        };
        let mut minter = found.record.filter(own).unwrap_or(fresh);
        if doubt.is_some() {
            minter.renew(chance);
        }
        (minter, doubt)
    }

    /// Becomes another actor. Its record has to be durable before, or together with, the first dot.
    pub fn renew(&mut self, chance: u64) {
        let leap = 1 + chance % LEAP_MAX;
        let incarnation = self.actor.incarnation.saturating_add(leap).min(INCARNATION_MAX);
        *self = Minter { actor: Actor { incarnation, ..self.actor }, minted: 0, reserved: 0 };
    }

    /// Who mints.
    pub fn actor(&self) -> Actor {
        self.actor
    }

    /// A client's write to a key whose row here is `local` (empty if there is none): the value
    /// replaces what the context covers.
    pub fn write<V: Ord>(
        &mut self,
        local: Clock<Actor, V>,
        context: &DotContext<Actor>,
        value: V,
        chance: u64,
    ) -> MintedWrite<V> {
        self.write_as(local, context, chance, |_| value)
    }

    /// The same, for a value that is made of its own dot.
    pub fn write_as<V: Ord>(
        &mut self,
        local: Clock<Actor, V>,
        context: &DotContext<Actor>,
        chance: u64,
        make: impl FnOnce(&Dot<Actor>) -> V,
    ) -> MintedWrite<V> {
        let seen = |minter: &Minter| (local.seen(&minter.actor), context.seen(&minter.actor));
        let (known, named) = seen(self);
        let renewed = self.make_sure(known, named, chance);
        // Only where the row holds every dot of ours that anybody names do the counters go on
        // without a gap.
        let (known, named) = seen(self);
        let whole = known.filter(|known| named.is_none_or(|named| known.covers(named)));
        let count = whole.map_or(self.minted, CounterSet::highest) + 1;
        self.use_up(count);
        let dot = Dot { id: self.actor, count };
        let mut clock = local.discard(context);
        let value = make(&dot);
        clock.event(dot.clone(), value);
        MintedWrite { clock, dot, renewed }
    }

    /// Another replica's clock for a key whose row here is `local`. If it names dots of this actor
    /// that the row does not hold, the row was lost: a dot is used up for no value, so that the
    /// next one lies above all that may still be out there.
    pub fn merge<V: Ord>(
        &mut self,
        local: Clock<Actor, V>,
        incoming: Clock<Actor, V>,
        chance: u64,
    ) -> (Clock<Actor, V>, Option<Doubt>) {
        let seen = |minter: &Minter| (local.seen(&minter.actor), incoming.seen(&minter.actor));
        let (known, named) = seen(self);
        let renewed = self.make_sure(known, named, chance);
        let (known, named) = seen(self);
        let lost = named.is_some_and(|named| !known.is_some_and(|known| known.covers(named)));
        let mut clock = local.sync(incoming);
        if lost {
            let count = self.minted + 1;
            self.use_up(count);
            clock = clock.discard(&DotContext::empty().and(self.actor, count));
        }
        (clock, renewed)
    }

    /// Becomes another actor if these dots are none that it minted, or if there are no more.
    fn make_sure(
        &mut self,
        known: Option<&CounterSet>,
        named: Option<&CounterSet>,
        chance: u64,
    ) -> Option<Doubt> {
        let beyond = |seen: &CounterSet| seen.highest() > self.minted;
        let doubt = if known.is_some_and(beyond) || named.is_some_and(beyond) {
            Doubt::Ahead
        } else if self.minted >= COUNT_MAX {
            Doubt::Exhausted
        } else {
            return None;
        };
        self.renew(chance);
        Some(doubt)
    }

    fn use_up(&mut self, count: u64) {
        self.minted = self.minted.max(count);
        if self.minted > self.reserved {
            self.reserved = self.minted.saturating_add(RESERVED).min(COUNT_MAX);
        }
    }

    /// What has to be durable: a version (1), the node (8), then vnode, incarnation and the counter
    /// up to which dots are set aside as varints.
    pub fn record(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        out.put_u8(VERSION);
        out.put_u64(self.actor.node.0);
        varint::put(self.actor.vnode.into(), &mut out);
        varint::put(self.actor.incarnation, &mut out);
        varint::put(self.reserved, &mut out);
        out
    }

    /// Reads what [`Minter::record`] wrote. Dots that were set aside count as used.
    pub fn recall(record: &[u8]) -> Result<Minter, Malformed> {
        let mut from = Reader::new(record);
        if from.u8("a vnode's record")? != VERSION {
            return Err(Malformed("a vnode's record of a version this node does not know"));
        }
        let node = NodeId(from.u64("a vnode's node")?);
        let vnode = varint::take(&mut from, "a vnode's partition")?;
        let vnode = u32::try_from(vnode).map_err(|_| Malformed("a vnode's partition"))?;
        let incarnation = varint::take(&mut from, "a vnode's incarnation")?;
        let reserved = varint::take(&mut from, "a vnode's counters")?;
        if incarnation > INCARNATION_MAX || reserved > COUNT_MAX {
            return Err(Malformed("a vnode's record"));
        }
        from.end("a vnode's record")?;
        let actor = Actor { node, vnode, incarnation };
        Ok(Minter { actor, minted: reserved, reserved })
    }
}

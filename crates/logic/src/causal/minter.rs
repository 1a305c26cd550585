//! Minter: the actor of a vnode and its next counter, so that no dot is minted twice.
//!
//! Causality relies on dots that name one write. A vnode may forget some of its writes (a lost row,
//! a wiped disk, an old copy of the data directory). If it counts on from what is left, it mints
//! dots that other replicas know as other writes, and the new write is silently dropped. Two rules
//! prevent that.
//!
//! *A missing row is harmless.* The minter knows the highest counter that the actor ever used, on
//! any key. If a key's local row lacks some of the actor's dots that others name, the next dot lies
//! above all of them, and does not claim to have seen those between: values that still exist
//! elsewhere stay as siblings. This covers deleted keys whose tombstone was reaped, lost rows, and
//! keys that return after having been handed off to another node.
//!
//! *A minter in doubt becomes another actor.* If that highest counter itself may be too low, the
//! incarnation increases by a random leap: a copy of this directory that starts elsewhere leaps to
//! another number.

use super::clock::{Clock, Dot};
use base::codec::{Malformed, Reader, Writer};
use base::dots::{COUNT_MAX, CounterSet, DotContext, INCARNATION_MAX};
use base::{Actor, NodeId, varint};

/// Counters reserved at a time, so that the record is seldom written.
const RESERVED_COUNTERS: u64 = 1_024;
/// Largest leap of the incarnation.
const LEAP_MAX: u64 = 1 << 32;
/// Version of the record's format.
const VERSION: u8 = 1;

/// Reason why a vnode can't continue as the same actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalReason {
    /// The node did not shut down cleanly, and some bucket's writes were not synced before their
    /// acknowledgement.
    Unsynced,
    /// A part of the log or the store was lost, cut or found damaged.
    Damaged,
    /// The data directory was restored from a copy.
    Restored,
    /// The vnode was on this node before, and its record is gone.
    RecordMissing,
    /// A clock or a context names a dot of this actor that it does not remember minting.
    Ahead,
    /// The actor's counters are exhausted.
    Exhausted,
}

/// State of a vnode as found when its node starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartState {
    /// Record of the vnode. `None`: there is none.
    pub record: Option<Minter>,
    /// Incarnation number of the node, from 1. A vnode without a record begins as the actor of that
    /// number: the first dots of an earlier incarnation may be known to others and lost here.
    pub incarnation: u64,
    /// True if this node, under its node id, may have held the vnode before.
    pub was_held: bool,
    /// True if acknowledged writes may be missing on disk: the node did not shut down cleanly, and
    /// some bucket acknowledges before a sync.
    pub may_lack_writes: bool,
    /// True if a part of the log or the store was lost, cut or found damaged.
    pub is_damaged: bool,
    /// True if the data directory was restored from a copy.
    pub is_restored: bool,
}

impl StartState {
    /// State of a vnode that this node never held, in its first incarnation.
    pub const FIRST: StartState = StartState {
        record: None,
        incarnation: 1,
        was_held: false,
        may_lack_writes: false,
        is_damaged: false,
        is_restored: false,
    };
}

/// Result of a client's write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MintedWrite<V> {
    /// New row of the key, which is sent to the other replicas.
    pub clock: Clock<Actor, V>,
    /// Dot of the write.
    pub dot: Dot<Actor>,
    /// Reason why the vnode became another actor for it. `None`: it did not.
    pub renewal: Option<RenewalReason>,
}

/// Minter of one vnode. The caller makes its record durable together with the changed row, whenever
/// [`Minter::record`] has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minter {
    actor: Actor,
    /// Highest counter used so far, on any key.
    minted: u64,
    /// Highest counter that may be used before the record is written again; `minted <= reserved`.
    reserved: u64,
}

impl Minter {
    /// Restores the minter, and returns the reason if it had to become another actor.
    pub fn start(
        node: NodeId,
        vnode: u32,
        found: StartState,
        chance: u64,
    ) -> (Minter, Option<RenewalReason>) {
        let incarnation = found.incarnation.clamp(1, INCARNATION_MAX);
        let first = Actor { node, vnode, incarnation };
        let fresh = Minter { actor: first, minted: 0, reserved: 0 };
        let is_own = |record: &Minter| (record.actor.node, record.actor.vnode) == (node, vnode);
        let reason = match found.record {
            None if !found.was_held && !found.is_restored => return (fresh, None),
            None => Some(RenewalReason::RecordMissing),
            Some(record) if !is_own(&record) => Some(RenewalReason::Restored),
            Some(_) if found.is_restored => Some(RenewalReason::Restored),
            Some(_) if found.is_damaged => Some(RenewalReason::Damaged),
            Some(_) if found.may_lack_writes => Some(RenewalReason::Unsynced),
            Some(_) => None,
        };
        let mut minter = found.record.filter(is_own).unwrap_or(fresh);
        if reason.is_some() {
            minter.renew(chance);
        }
        (minter, reason)
    }

    /// Becomes another actor. Its record must be durable before, or together with, its first dot.
    pub fn renew(&mut self, chance: u64) {
        let leap = 1 + chance % LEAP_MAX;
        let incarnation = self.actor.incarnation.saturating_add(leap).min(INCARNATION_MAX);
        *self = Minter { actor: Actor { incarnation, ..self.actor }, minted: 0, reserved: 0 };
    }

    /// Returns the actor.
    pub fn actor(&self) -> Actor {
        self.actor
    }

    /// Carries out a client's write to a key whose local row is `local` (empty if there is none):
    /// the value replaces those that the context covers.
    pub fn write<V: Ord>(
        &mut self,
        local: Clock<Actor, V>,
        context: &DotContext<Actor>,
        value: V,
        chance: u64,
    ) -> MintedWrite<V> {
        self.write_as(local, context, chance, |_| value)
    }

    /// Carries out a write like [`Minter::write`]; `make` builds the value from its dot.
    pub fn write_as<V: Ord>(
        &mut self,
        local: Clock<Actor, V>,
        context: &DotContext<Actor>,
        chance: u64,
        make: impl FnOnce(&Dot<Actor>) -> V,
    ) -> MintedWrite<V> {
        let seen = |minter: &Minter| (local.seen(&minter.actor), context.seen(&minter.actor));
        let (known, named) = seen(self);
        let renewal = self.renew_if_in_doubt(known, named, chance);
        // The counters continue without a gap only if the row holds every own dot that the context
        // names.
        let (known, named) = seen(self);
        let complete = known.filter(|known| named.is_none_or(|named| known.covers(named)));
        let count = complete.map_or(self.minted, CounterSet::highest) + 1;
        self.record_use(count);
        let dot = Dot { id: self.actor, count };
        let mut clock = local.discard(context);
        let value = make(&dot);
        clock.event(dot.clone(), value);
        MintedWrite { clock, dot, renewal }
    }

    /// Merges another replica's clock into `local`, the key's local row. If it names dots of this
    /// actor that the row lacks, the row was lost: a dot is consumed without a value, so that the
    /// next one lies above all that may still exist elsewhere.
    pub fn merge<V: Ord>(
        &mut self,
        local: Clock<Actor, V>,
        incoming: Clock<Actor, V>,
        chance: u64,
    ) -> (Clock<Actor, V>, Option<RenewalReason>) {
        let seen = |minter: &Minter| (local.seen(&minter.actor), incoming.seen(&minter.actor));
        let (known, named) = seen(self);
        let renewed = self.renew_if_in_doubt(known, named, chance);
        let (known, named) = seen(self);
        let is_row_lost =
            named.is_some_and(|named| !known.is_some_and(|known| known.covers(named)));
        let mut clock = local.sync(incoming);
        if is_row_lost {
            let count = self.minted + 1;
            self.record_use(count);
            clock = clock.discard(&DotContext::empty().with_dot(self.actor, count));
        }
        (clock, renewed)
    }

    /// Becomes another actor if these dots exceed those that it minted, or if its counters are
    /// exhausted. Returns the reason.
    fn renew_if_in_doubt(
        &mut self,
        known: Option<&CounterSet>,
        named: Option<&CounterSet>,
        chance: u64,
    ) -> Option<RenewalReason> {
        let is_beyond_minted = |seen: &CounterSet| seen.highest() > self.minted;
        let reason = if known.is_some_and(is_beyond_minted) || named.is_some_and(is_beyond_minted) {
            RenewalReason::Ahead
        } else if self.minted >= COUNT_MAX {
            RenewalReason::Exhausted
        } else {
            return None;
        };
        self.renew(chance);
        Some(reason)
    }

    fn record_use(&mut self, count: u64) {
        self.minted = self.minted.max(count);
        if self.minted > self.reserved {
            self.reserved = self.minted.saturating_add(RESERVED_COUNTERS).min(COUNT_MAX);
        }
    }

    /// Returns the durable record: a version (1), the node (8), then vnode, incarnation and the
    /// highest reserved counter as varints.
    pub fn record(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        out.put_u8(VERSION);
        out.put_u64(self.actor.node.0);
        varint::put(self.actor.vnode.into(), &mut out);
        varint::put(self.actor.incarnation, &mut out);
        varint::put(self.reserved, &mut out);
        out
    }

    /// Decodes what [`Minter::record`] wrote. Reserved counters count as used.
    pub fn from_record(record: &[u8]) -> Result<Minter, Malformed> {
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

//! Causality of values: dotted version vector sets.
//!
//! Every write of a key is a *dot*: its coordinator (an actor) and that actor's counter. A key's
//! [`Clock`] holds the values that no later write has replaced, each with its dot, and all dots
//! that it knows. [`Clock::sync`] merges two clocks: it keeps what neither side has seen replaced.
//! A write replaces what its context covers and is added beside the rest. So concurrent values stay
//! as siblings, and only they do: the clock grows with the actors that wrote, never with the
//! clients.
//!
//! The form is that of *DVV sets* (Almeida, Baquero, Gonçalves, Preguiça, Fonte, *Scalable and
//! accurate causality tracking for eventually consistent stores*, DAIS 2014), with one change: an
//! actor's dots are ranges of counters, not always all from 1. This allows three things that a
//! plain DVV set can't express: a context for one's own write alone (`DotContext::and`, so that a
//! client may write twice without a read between), a counter that continues above everything
//! forgotten without claiming to have seen it ([`Minter`]), and states that arrive in any order.
//!
//! It is exact only while no dot is minted twice; [`Minter`] decides when an actor has to become
//! another. `docs/inside/causality.md` describes all of it.
//!
//! Promises: sync is commutative, associative and idempotent; a value disappears only when a
//! context covered its dot; equal clocks have equal bytes; decoding never panics, whatever the
//! bytes, and never allocates for more than the bytes can hold.
//! Never: reads a wall clock; drops an entry to stay small; interprets a value.
//! Read next: `base/dots/mod.rs`, `clock.rs`, `minter.rs`, then `tests/lost_memory.rs`.

mod clock;
mod coding;
mod minter;
mod resolve;

pub use clock::{Clock, Dot, Entry};
pub use coding::{Coded, decode, encode};
pub use minter::{MintedWrite, Minter, RenewalReason, StartState};

#[cfg(test)]
mod tests;

//! Causality of values: dotted version vector sets.
//!
//! Every write of a key is a *dot*: who coordinated it, and which of that actor's writes it is. A
//! key's [`Clock`] holds the values no later write has replaced, each with its dot, and all dots it
//! has ever heard of. Two clocks [`Clock::sync`] by keeping what neither side has seen replaced; a
//! write replaces what its context covers and stands beside the rest. So concurrent values stay
//! as siblings, and only they do: the clock grows with the actors that wrote, never with the
//! clients.
//!
//! The form is that of *DVV sets* (Almeida, Baquero, Gonçalves, Preguiça, Fonte, *Scalable and
//! accurate causality tracking for eventually consistent stores*, DAIS 2014), with one change: an
//! actor's dots are ranges of counters, not always all from 1. This allows three things a plain
//! DVV set can't say: a context for one's own write alone (`DotContext::and`, so that a client may
//! write twice without reading between), a counter that goes on above everything forgotten without
//! claiming to have seen it ([`Minter`]), and states that arrive in any order.
//!
//! It is exact only while no dot is minted twice; [`Minter`] says when an actor has to become
//! another. `docs/inside/causality.md` tells all of it.
//!
//! Promises: sync is commutative, associative and idempotent; a value disappears only when a
//! context covered its dot; equal clocks have equal bytes; whatever the bytes, decoding does not
//! panic and sets nothing aside that is not there.
//! Never: looks at a wall clock; drops an entry to stay small; knows what a value is.
//! Read next: `base/dots/mod.rs`, `clock.rs`, `minter.rs`, then `tests/lost_memory.rs`.

mod clock;
mod coding;
mod minter;
mod resolve;

pub use clock::{Clock, Dot, Entry};
pub use coding::{Coded, decode, encode};
pub use minter::{Doubt, MintedWrite, Minter, Start};

#[cfg(test)]
mod tests;

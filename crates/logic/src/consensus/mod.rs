//! Consensus: one order of log entries, agreed by a majority of a group's voters.
//!
//! The protocol is published, not invented: Multi-Paxos (Lamport, *Paxos Made Simple*, 2001) in the
//! form of *Omni-Paxos* (Ng, Haridi, Carbone, EuroSys 2023), whose *Sequence Paxos* agrees on the
//! log as a whole: a new leader adopts the log accepted under the highest ballot, then extends it.
//! Each rule names its source where it is implemented; `docs/inside/consensus.md` describes it from
//! beginning to end.
//!
//! Reads are answered under a lease, or at a read index; mastership can be handed over; members may
//! vote, only learn, or vote and keep no rows; a *stop-sign* begins a configuration with other
//! members.
//!
//! Promises: two replicas never decide different entries at one index; a decided entry stays
//! decided; `decided <= saved <= last`; nothing is decided, and no read allowed, that a crash could
//! make a replica forget.
//! Never: sees an entry's bytes; waits; reads a clock (the time comes with events).
//! Read next: `stories/starts_afresh.txt`, then `effect.rs`, `message.rs`, `replica.rs`.

mod ballot;
mod candidate;
mod configuration;
mod effect;
mod election;
mod event;
mod follower;
mod handover;
mod heartbeat;
mod host;
mod inbox;
mod lease;
mod log;
mod master;
mod membership;
mod message;
mod progress;
mod quorum;
mod reads;
mod replay;
mod replica;
mod replication;
mod restored;
mod role;
mod rules;
mod snapshot;
mod sound;
mod status;
mod stopsign;
mod tear;
mod window;
mod wire;
mod witness;

pub use configuration::{Configuration, ConfigurationError, MEMBERS_MAX, Member, VOTERS_MAX};
pub use effect::{Effect, Refusal, RefusedCall, Role};
pub use event::{EntrySize, Event, ReadToken};
pub use lease::{LeaseClock, LeaseTerm};
pub use message::{Body, LogSummary, Message, ProbeReply};
pub use quorum::Quorums;
pub use replay::{Replay, ReplayError, ReplayResult};
pub use replica::Replica;
pub use restored::{RestoreError, RestoredState};
pub use status::Progress;
pub use tear::Tear;
pub use window::VALUES_IN_FLIGHT_MAX;

#[cfg(test)]
mod tests;

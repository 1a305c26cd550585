//! A node in small: a replica, a log whose unsynced end a crash may take, and a store that keeps
//! what it flushed.

use crate::consensus::{
    Configuration, Effect, Event, LeaseClock, Replay, Replica, RestoreError, Restored,
};
use base::{Ballot, ConfigurationId, LogIndex, NodeId};

/// The node of most tests.
pub const NODE: NodeId = NodeId(1);

/// A record of the log. A value is the number it got when it was proposed; no two proposals share
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Promise(Ballot),
    Adopt(Ballot, LogIndex),
    Accept(LogIndex, Ballot, LogIndex, u64),
    Decided(LogIndex),
}

/// The machine and all it has on disk.
pub struct Machine {
    pub replica: Replica,
    /// The log, oldest first.
    pub records: Vec<Record>,
    /// How many of them a crash can't take.
    pub synced: usize,
    /// Values by index, the first has index 1: what the log holds, kept in memory.
    pub values: Vec<u64>,
    /// Up to where the store has applied.
    pub applied: LogIndex,
    /// Up to where the store keeps it through a crash, and the values it holds.
    pub flushed: Vec<u64>,
    /// The number of the next proposed value.
    pub next_value: u64,
    /// Where the last copy to the log's head begins and ends.
    copied: Option<(usize, usize)>,
    pub effects: Vec<Effect>,
}

impl Machine {
    /// A machine in its first life.
    pub fn fresh() -> Machine {
        Machine::from_log(Vec::new(), Vec::new(), LeaseClock::default(), true).expect("sound")
    }

    /// A machine that finds this log and this store.
    pub fn from_log(
        records: Vec<Record>,
        flushed: Vec<u64>,
        lease: LeaseClock,
        log_intact: bool,
    ) -> Result<Machine, RestoreError> {
        let durable = LogIndex(flushed.len() as u64);
        let mut replay = Replay::new(durable);
        let mut values = flushed.clone();
        for record in &records {
            match *record {
                Record::Promise(ballot) => replay.promised(ballot),
                Record::Adopt(ballot, upto) => replay.adopted(ballot, upto).expect("sound"),
                Record::Accept(index, ballot, decided, value) => {
                    replay.accepted(index, ballot, decided, value).expect("sound");
                }
                Record::Decided(upto) => replay.decided(upto),
            }
            while let Some((index, value)) = replay.next_decided() {
                assert_eq!(index.0, values.len() as u64 + 1, "taken out in order");
                values.push(value);
            }
        }
        let found = replay.finish().expect("sound");
        values.extend(found.tail.values());
        assert_eq!(values.len() as u64, found.last.0);
        let replica = Replica::restore(Restored {
            node: NODE,
            configuration: Configuration::alone(ConfigurationId(1), NODE).expect("sound"),
            promised: found.promised,
            accepted_ballot: found.accepted_ballot,
            last: found.last,
            decided: found.decided,
            log_intact,
            lease,
        })?;
        Ok(Machine {
            replica,
            synced: records.len(),
            records,
            next_value: values.iter().max().map_or(1, |highest| highest + 1),
            values,
            applied: durable,
            flushed,
            copied: None,
            effects: Vec::new(),
        })
    }

    /// Hands the event in and carries out what comes of it, in order. The effects stay to be looked
    /// at.
    pub fn step(&mut self, event: Event) -> &[Effect] {
        self.effects.clear();
        self.replica.step(event, &mut self.effects);
        for effect in &self.effects {
            match *effect {
                Effect::SavePromise { ballot } => self.records.push(Record::Promise(ballot)),
                Effect::Adopt { ballot, upto } => {
                    self.values.truncate(upto.0 as usize);
                    self.records.push(Record::Adopt(ballot, upto));
                }
                Effect::Save { index, ballot, decided, .. } => {
                    assert_eq!(index.0, self.values.len() as u64 + 1, "values come in order");
                    let value = self.next_value;
                    self.next_value += 1;
                    self.values.push(value);
                    self.records.push(Record::Accept(index, ballot, decided, value));
                }
                Effect::SaveDecided { upto } => self.records.push(Record::Decided(upto)),
                Effect::Decided { upto } => self.applied = self.applied.max(upto),
                Effect::Role { .. }
                | Effect::ReadAt { .. }
                | Effect::Refused { .. }
                | Effect::Silent { .. } => {}
            }
        }
        &self.effects
    }

    /// Syncs the first `count` unsynced records; returns what the replica is to be told.
    pub fn sync(&mut self, count: usize) -> Vec<Event> {
        let from = self.synced;
        self.synced = from.saturating_add(count).min(self.records.len());
        let mut events = Vec::new();
        for record in &self.records[from..self.synced] {
            match *record {
                Record::Promise(ballot) => events.push(Event::PromiseSaved { ballot }),
                Record::Adopt(ballot, upto) | Record::Accept(upto, ballot, ..) => {
                    let covers = matches!(events.last(),
                        Some(Event::Saved { ballot: before, .. }) if *before == ballot);
                    if covers {
                        events.pop();
                    }
                    events.push(Event::Saved { ballot, upto });
                }
                Record::Decided(_) => {}
            }
        }
        events
    }

    /// The store makes durable what it has applied.
    pub fn flush(&mut self) {
        self.flushed = self.values[..self.applied.0 as usize].to_vec();
    }

    /// Copies to the log's head what lives only there, so that the records before may go once the
    /// copies are synced.
    pub fn copy(&mut self) {
        let older = self.records.len();
        let ballot = self.replica.accepted_ballot();
        self.records.push(Record::Promise(self.replica.promised()));
        self.records.push(Record::Adopt(ballot, self.replica.last()));
        for place in self.flushed.len()..self.values.len() {
            let index = LogIndex(place as u64 + 1);
            let record = Record::Accept(index, ballot, self.replica.decided(), self.values[place]);
            self.records.push(record);
        }
        self.records.push(Record::Decided(self.replica.decided()));
        self.copied = Some((older, self.records.len()));
    }

    /// Drops the records before the last copy, if that is synced.
    pub fn collapse(&mut self) {
        if let Some((older, _)) = self.copied.take_if(|(_, end)| *end <= self.synced) {
            self.records.drain(..older);
            self.synced -= older;
        }
    }

    /// Power is lost: the synced records stay, and so do `kept` of the others.
    pub fn crash(self, kept: usize) -> Machine {
        let mut records = self.records;
        records.truncate(self.synced + kept);
        let mut machine = Machine::from_log(records, self.flushed, LeaseClock::default(), true)
            .expect("a crash leaves a sound log");
        machine.next_value = self.next_value;
        machine
    }
}

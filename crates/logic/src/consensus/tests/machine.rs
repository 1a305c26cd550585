//! Miniature of a node: a replica, a log whose unsynced end a crash may take, and a store that
//! keeps what it flushed.

use crate::consensus::{
    Configuration, Effect, Event, LeaseClock, LogSummary, Message, Replay, Replica, RestoreError,
    RestoredState, Tear,
};
use base::{Ballot, ConfigurationId, LogIndex, NodeId};
use std::collections::BTreeMap;

/// Node of most tests.
pub const NODE: NodeId = NodeId(1);

/// Record of the log. An entry is the number that it got when it was proposed; no two proposals
/// share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    Promise(Ballot),
    Stage(LogIndex, Ballot, u64),
    /// An adoption: ballot, last index kept, last index staged.
    Adopt(Ballot, LogIndex, LogIndex),
    Accept(LogIndex, Ballot, LogIndex, u64),
    Decided(LogIndex),
    /// A cut torn tail.
    Torn(Tear),
    /// Statement of the tear that is not mended yet. `None`: all are mended.
    OpenTear(Option<Tear>),
}

/// Machine: a replica and all it has on disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub replica: Replica,
    /// Log, oldest record first.
    pub records: Vec<Record>,
    /// Number of records that a crash can't remove.
    pub synced: usize,
    /// Number of records that no damage can remove: the log states that they are durable.
    pub stated: usize,
    /// Synced records that damage removed. They were on disk, and count as saved: the failure
    /// followed the save.
    pub lost: Vec<Record>,
    /// Number of times that its tail was torn.
    pub tears: u64,
    /// Summary of the synced records: the highest promise, and the accepted log.
    pub on_disk: (Ballot, LogSummary),
    /// Entries of the log in memory; the first has index 1.
    pub values: Vec<u64>,
    /// Staged entries, which count only once they are adopted.
    pub staged: BTreeMap<LogIndex, (Ballot, u64)>,
    /// Last index that the store has applied.
    pub applied: LogIndex,
    /// Entries that the store holds durably.
    pub flushed: Vec<u64>,
    /// Number of the next proposed entry.
    pub next_value: u64,
    /// Begin and end of the last copy to the log's head.
    copied: Option<(usize, usize)>,
    pub effects: Vec<Effect>,
    /// Messages to send, with the entries that they name.
    pub outbox: Vec<(NodeId, Message, Vec<u64>)>,
}

/// Identity of the node to which a log belongs.
#[derive(Clone, Debug)]
pub struct Identity {
    pub node: NodeId,
    pub configuration: Configuration,
    pub lease: LeaseClock,
    /// Entries that are stop-signs, with their configurations.
    pub signs: BTreeMap<u64, Configuration>,
}

impl Identity {
    /// Returns the identity of the node of most tests, alone in its group.
    pub fn sole_member() -> Identity {
        Identity {
            node: NODE,
            configuration: Configuration::single_member(ConfigurationId(0), NODE).expect("sound"),
            lease: LeaseClock::default(),
            signs: BTreeMap::new(),
        }
    }

    /// Returns the configuration in force after the first `decided` of these entries, with its
    /// base, and the stop-signs that follow.
    fn configured(&self, values: &[u64], decided: LogIndex) -> Configured {
        let mut current = (LogIndex(0), self.configuration.clone());
        let mut signs = Vec::new();
        for (place, value) in values.iter().enumerate() {
            let Some(configuration) = self.signs.get(value) else { continue };
            let sign = (LogIndex(place as u64 + 1), configuration.clone());
            if sign.0 <= decided {
                current = sign;
            } else {
                signs.push(sign);
            }
        }
        (current, signs)
    }
}

/// Configuration with its base, and the stop-signs after it.
type Configured = ((LogIndex, Configuration), Vec<(LogIndex, Configuration)>);

impl Machine {
    /// Builds a machine in its first incarnation.
    pub fn fresh(identity: Identity) -> Machine {
        Machine::from_log(Vec::new(), Vec::new(), identity).expect("sound")
    }

    /// Restores a machine from this log and this store.
    pub fn from_log(
        records: Vec<Record>,
        flushed: Vec<u64>,
        identity: Identity,
    ) -> Result<Machine, RestoreError> {
        let durable = LogIndex(flushed.len() as u64);
        let mut replay = Replay::new(durable);
        let mut values = flushed.clone();
        for record in &records {
            match *record {
                Record::Promise(ballot) => replay.replay_promise(ballot),
                Record::Adopt(ballot, from, last) => {
                    replay.replay_adoption(ballot, from, last).expect("sound");
                }
                Record::Stage(index, ballot, value) => replay.replay_staged(index, ballot, value),
                Record::Accept(index, ballot, decided, value) => {
                    replay.replay_accepted(index, ballot, decided, value).expect("sound");
                }
                Record::Decided(last) => replay.replay_decided(last),
                Record::Torn(tear) => replay.replay_torn_tail(tear),
                Record::OpenTear(tear) => replay.replay_open_tear(tear),
            }
            while let Some((index, value)) = replay.next_decided() {
                assert_eq!(index.0, values.len() as u64 + 1, "taken out in order");
                values.push(value);
            }
        }
        let found = replay.finish().expect("sound");
        values.extend(found.tail.values());
        assert_eq!(values.len() as u64, found.last.0);
        let ((base, configuration), signs) = identity.configured(&values, found.decided);
        let Identity { node, lease, .. } = identity;
        let replica = Replica::restore(RestoredState {
            node,
            configuration,
            base,
            signs,
            promised: found.promised,
            accepted_ballot: found.accepted_ballot,
            last: found.last,
            decided: found.decided,
            tear: found.tear,
            lease,
        })?;
        let log =
            LogSummary { ballot: found.accepted_ballot, last: found.last, decided: found.decided };
        Ok(Machine {
            replica,
            on_disk: (found.promised, log),
            synced: records.len(),
            stated: records.len(),
            lost: Vec::new(),
            tears: 0,
            records,
            next_value: values.iter().max().map_or(1, |highest| highest + 1),
            values,
            staged: BTreeMap::new(),
            applied: durable,
            flushed,
            copied: None,
            effects: Vec::new(),
            outbox: Vec::new(),
        })
    }

    /// Passes the event to the replica and carries out its effects, in order. The effects stay for
    /// inspection.
    pub fn step(&mut self, event: Event) -> &[Effect] {
        self.step_with(event, &[])
    }

    /// Does the same as [`Machine::step`] for a message that came with entries.
    pub fn step_with(&mut self, event: Event, received: &[u64]) -> &[Effect] {
        let first = match &event {
            Event::Received { message, .. } => message.body.entry_range().map(|(after, _)| after),
            _ => None,
        };
        self.carry_out(first, received, |replica, effects| replica.step(event, effects))
    }

    /// Carries out the replica's effects, with the received entries, which begin after an index.
    pub fn carry_out(
        &mut self,
        first: Option<LogIndex>,
        received: &[u64],
        act: impl FnOnce(&mut Replica, &mut Vec<Effect>),
    ) -> &[Effect] {
        let received =
            |index: LogIndex| first.map(|after| received[(index.0 - after.0) as usize - 1]);
        self.effects.clear();
        act(&mut self.replica, &mut self.effects);
        for effect in &self.effects {
            match *effect {
                Effect::SavePromise { ballot } => {
                    let tear = self.replica.tear();
                    // A torn log states that until it is mended, and once more then.
                    if self.tears > 0 {
                        self.records.push(Record::OpenTear(tear));
                    }
                    self.records.push(Record::Promise(ballot));
                }
                Effect::Stage { index, ballot } => {
                    let value = received(index).expect("what is staged came with a message");
                    self.staged.retain(|_, (under, _)| *under == ballot);
                    self.staged.insert(index, (ballot, value));
                    self.records.push(Record::Stage(index, ballot, value));
                }
                Effect::Adopt { ballot, from, last } => {
                    self.values.truncate(from.0 as usize);
                    for index in from.0 + 1..=last.0 {
                        let (under, value) = self.staged[&LogIndex(index)];
                        assert_eq!(under, ballot, "what is adopted was staged under its ballot");
                        self.values.push(value);
                    }
                    self.staged.clear();
                    self.records.push(Record::Adopt(ballot, from, last));
                }
                Effect::Save { index, ballot, decided } => {
                    assert_eq!(index.0, self.values.len() as u64 + 1, "values come in order");
                    let value = received(index).unwrap_or(self.next_value);
                    self.next_value = self.next_value.max(value + 1);
                    self.values.push(value);
                    self.records.push(Record::Accept(index, ballot, decided, value));
                }
                Effect::SaveDecided { last } => self.records.push(Record::Decided(last)),
                Effect::Decided { last } => self.applied = self.applied.max(last),
                Effect::Send { to, message } => {
                    let range = message
                        .body
                        .entry_range()
                        .map_or(0..0, |(after, upto)| after.0 as usize..upto.0 as usize);
                    self.outbox.push((to, message, self.values[range].to_vec()));
                }
                Effect::FetchSnapshot { .. }
                | Effect::Configured { .. }
                | Effect::Ended
                | Effect::Role { .. }
                | Effect::ReadAt { .. }
                | Effect::Refused { .. }
                | Effect::PossibleLoss { .. } => {}
            }
        }
        &self.effects
    }

    /// Syncs the first `count` unsynced records; returns the events for the replica.
    pub fn sync(&mut self, count: usize) -> Vec<Event> {
        let from = self.synced;
        self.synced = from.saturating_add(count).min(self.records.len());
        if self.synced > from {
            self.stated = from;
        }
        let mut events = Vec::new();
        let (promised, log) = &mut self.on_disk;
        for record in &self.records[from..self.synced] {
            match *record {
                Record::Promise(ballot) => *promised = ballot.max(*promised),
                Record::Adopt(ballot, _, last) | Record::Accept(last, ballot, ..) => {
                    // The entries of a snapshot may reach further.
                    let flushed_last = LogIndex(self.flushed.len() as u64);
                    (log.ballot, log.last) = (ballot, last.max(flushed_last));
                }
                Record::Decided(_) | Record::Stage(..) => {}
                Record::Torn(_) | Record::OpenTear(_) => {}
            }
            // A promise counts once the log states that it is durable.
            if matches!(record, Record::Promise(_) | Record::Adopt(..)) {
                self.stated = self.synced;
            }
            match *record {
                Record::Promise(ballot) => events.push(Event::PromiseSaved { ballot }),
                Record::Adopt(ballot, _, upto) | Record::Accept(upto, ballot, ..) => {
                    let extends_last = matches!(events.last(),
                        Some(Event::Saved { ballot: before, .. }) if *before == ballot);
                    if extends_last {
                        events.pop();
                    }
                    events.push(Event::Saved { ballot, last: upto });
                }
                Record::Decided(_) | Record::Stage(..) => {}
                Record::Torn(_) | Record::OpenTear(_) => {}
            }
        }
        events
    }

    /// Makes the applied entries of the store durable.
    pub fn flush(&mut self) {
        self.flushed = self.values[..self.applied.0 as usize].to_vec();
    }

    /// Copies records to the log's head that exist only there, so that those before may be dropped
    /// once the copies are synced.
    pub fn copy(&mut self) {
        let copy_start = self.records.len();
        let ballot = self.replica.accepted_ballot();
        if self.tears > 0 {
            self.records.push(Record::OpenTear(self.replica.tear()));
        }
        self.records.push(Record::Promise(self.replica.promised()));
        let last = self.replica.last();
        if ballot > Ballot::default() {
            self.records.push(Record::Adopt(ballot, last, last));
        }
        for place in self.flushed.len()..self.values.len() {
            let index = LogIndex(place as u64 + 1);
            let record = Record::Accept(index, ballot, self.replica.decided(), self.values[place]);
            self.records.push(record);
        }
        let staged = self.staged.iter();
        self.records.extend(staged.map(|(at, (under, value))| Record::Stage(*at, *under, *value)));
        self.records.push(Record::Decided(self.replica.decided()));
        self.copied = Some((copy_start, self.records.len()));
    }

    /// Drops the records before the last copy, if that is synced. Returns true if it was.
    pub fn collapse(&mut self) -> bool {
        let Some((copy_start, _)) = self.copied.take_if(|(_, end)| *end <= self.synced) else {
            return false;
        };
        self.records.drain(..copy_start);
        self.synced -= copy_start;
        self.stated = self.stated.saturating_sub(copy_start);
        true
    }

    /// Replaces the log's beginning by a snapshot, durably. Returns true if it brought anything
    /// new.
    pub fn install(&mut self, snapshot: &[u64]) -> bool {
        let last = snapshot.len();
        if last <= self.replica.decided().0 as usize {
            return false;
        }
        let tail = self.values.split_off(last.min(self.values.len()));
        self.values = [snapshot, &tail].concat();
        self.flushed = snapshot.to_vec();
        self.applied = LogIndex(last as u64);
        self.on_disk.1.last = self.on_disk.1.last.max(self.applied);
        true
    }

    /// Returns true if no crash of this machine can remove the entry.
    pub fn holds(&self, place: usize, value: u64) -> bool {
        let index = LogIndex(place as u64 + 1);
        self.flushed.get(place) == Some(&value)
            || self.lost.iter().chain(&self.records[..self.synced]).any(|record| match record {
                Record::Accept(at, _, _, record_value) | Record::Stage(at, _, record_value) => {
                    *at == index && *record_value == value
                }
                _ => false,
            })
    }

    /// Crashes: the synced records stay, and so do `kept` of the others.
    pub fn crash(self, kept: usize, identity: Identity) -> Machine {
        let mut records = self.records;
        records.truncate(self.synced + kept);
        let mut machine =
            Machine::from_log(records, self.flushed, identity).expect("a crash leaves a sound log");
        machine.next_value = self.next_value;
        (machine.lost, machine.tears) = (self.lost, self.tears);
        machine
    }

    /// Crashes and tears the log's tail: `gone` of the synced records that are not stated to be
    /// durable are lost.
    pub fn tear(mut self, lost: usize, identity: Identity) -> Machine {
        let kept = self.stated.max(self.synced - lost.min(self.synced));
        self.lost.extend(self.records.drain(kept..).take(self.synced - kept));
        self.tears += 1;
        self.records.push(Record::Torn(Tear(self.tears)));
        self.synced = self.records.len();
        self.crash(0, identity)
    }
}

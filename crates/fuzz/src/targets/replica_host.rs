//! Host of a replica under attack: carries out its effects on a log in memory, and holds it to what
//! every host relies on.

use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId, Part};
use logic::consensus::{
    Configuration, Effect, EntrySize, Event, LeaseClock, Member, Message, Replay, Replica,
    RestoredState, Tear,
};
use std::collections::{BTreeMap, VecDeque};

/// Members beside the replica's own node, and one node that is none.
pub const MEMBERS: u64 = 4;
const NODE: NodeId = NodeId(1);

/// Record of the log; an entry is a number.
#[derive(Clone, Debug)]
enum HostRecord {
    Promise(Ballot),
    Adopt(Ballot, LogIndex, LogIndex),
    Stage(LogIndex, Ballot, u64),
    Accept(LogIndex, Ballot, LogIndex, u64),
    Decided(LogIndex),
    OpenTear(Option<Tear>),
}

/// Replica with its log.
pub struct Host {
    /// The replica.
    pub replica: Replica,
    /// The present time.
    pub now: Millis,
    records: Vec<HostRecord>,
    /// Number of synced records.
    synced: usize,
    /// Completions of synced records, which the replica has not heard of.
    saved: VecDeque<Event>,
    /// Entries of the log, from index 1.
    values: Vec<u64>,
    staged: BTreeMap<LogIndex, (Ballot, u64)>,
    /// Stop-signs by the number of their entry.
    signs: BTreeMap<u64, Configuration>,
    /// Number of entries that the store holds durably.
    flushed: usize,
    /// Entries known to be decided, over all lives.
    ledger: Vec<u64>,
    /// Number of the next proposal, and of the first entry of the next message.
    next_value: u64,
    next_received: u64,
    /// Messages that the replica has sent, with their receivers.
    sent: Vec<(NodeId, Message)>,
    /// Tear of the log that the first life began with.
    tear: Option<Tear>,
}

/// Number of the first proposal; entries of messages have lower ones.
const PROPOSALS: u64 = 1 << 60;

/// Returns a configuration of voters, a witness and a learner.
pub fn configuration(id: u32) -> Configuration {
    let parts = [Part::Voter, Part::Voter, Part::Voter, Part::Learner];
    let members = (1..).zip(parts).map(|(node, part)| Member { node: NodeId(node), part });
    Configuration::new(ConfigurationId(id), members.collect()).expect("it can work")
}

impl Host {
    /// Starts a first life. `kind`: how many entries it has decided, and whether its log is torn.
    pub fn new(kind: usize) -> Host {
        let tear = (kind == 3).then_some(Tear(7));
        let restored = RestoredState {
            node: NODE,
            configuration: configuration(1),
            base: LogIndex(0),
            signs: Vec::new(),
            promised: Ballot::default(),
            accepted_ballot: Ballot::default(),
            last: LogIndex(0),
            decided: LogIndex(0),
            tear,
            lease: LeaseClock::default(),
        };
        let mut host = Host {
            replica: Replica::restore(restored).expect("a first life"),
            now: Millis(1_000),
            records: Vec::new(),
            synced: 0,
            saved: VecDeque::new(),
            values: Vec::new(),
            staged: BTreeMap::new(),
            signs: BTreeMap::new(),
            flushed: 0,
            ledger: Vec::new(),
            next_value: PROPOSALS,
            next_received: 1,
            sent: Vec::new(),
            tear,
        };
        host.step(Event::Started { now: host.now });
        host
    }

    /// Returns the number of records that the replica had written.
    pub fn records(&self) -> usize {
        self.records.len()
    }

    /// Passes an event without entries to the replica.
    pub fn step(&mut self, event: Event) {
        self.carry_out(event, None);
    }

    /// Proposes a stop-sign.
    pub fn reconfigure(&mut self, configuration: Configuration, size: EntrySize) {
        let value = self.next_value;
        self.signs.insert(value, configuration.clone());
        self.step(Event::Reconfigure { configuration, size });
        if self.next_value == value {
            self.signs.remove(&value); // It was refused.
        }
    }

    /// Returns one of the last messages that the replica has sent, with its receiver.
    pub fn last_sent(&self, which: usize) -> Option<(NodeId, Message)> {
        self.sent.iter().nth_back(which).copied()
    }

    /// Reports that one of the last messages was not sent, if it has entries.
    pub fn report_unsent(&mut self, which: usize) {
        let sent = self.last_sent(which);
        if let Some((to, (after, _))) = sent.and_then(|(to, it)| Some((to, it.body.entry_range()?)))
        {
            self.step(Event::Unsent { to, after });
        }
    }

    /// Delivers a message with the entries that it names, of which some are stop-signs.
    pub fn receive(
        &mut self,
        from: NodeId,
        message: Message,
        signs: Vec<(LogIndex, Configuration)>,
    ) {
        self.next_received += 1 << 16;
        let first = self.next_received;
        let first = message.body.entry_range().map(|(after, _)| (after, first));
        if let Some((after, value)) = first {
            for (index, configuration) in &signs {
                let value = value + index.0.wrapping_sub(after.0);
                self.signs.insert(value, configuration.clone());
            }
        }
        let now = self.now;
        self.carry_out(Event::Received { from, message, signs, now }, first);
    }

    fn carry_out(&mut self, event: Event, received: Option<(LogIndex, u64)>) {
        let mut effects = Vec::new();
        self.replica.step(event, &mut effects);
        let came =
            |index: LogIndex| received.map(|(after, value)| value + index.0.wrapping_sub(after.0));
        for effect in effects {
            match effect {
                Effect::SavePromise { ballot } => {
                    // A torn log states that until it is mended, and once more then.
                    if self.tear.is_some() {
                        self.records.push(HostRecord::OpenTear(self.replica.tear()));
                    }
                    self.records.push(HostRecord::Promise(ballot));
                }
                Effect::Stage { index, ballot } => {
                    let value = came(index).expect("what is staged came with a message");
                    self.staged.retain(|_, (under, _)| *under == ballot);
                    self.staged.insert(index, (ballot, value));
                    self.records.push(HostRecord::Stage(index, ballot, value));
                }
                Effect::Adopt { ballot, from, last } => {
                    assert!(from.0 as usize >= self.ledger.len(), "what is decided stays");
                    self.values.truncate(from.0 as usize);
                    for index in from.0 + 1..=last.0 {
                        let (under, value) = self.staged[&LogIndex(index)];
                        assert_eq!(under, ballot, "what is adopted was staged under its ballot");
                        self.values.push(value);
                    }
                    self.staged.clear();
                    self.records.push(HostRecord::Adopt(ballot, from, last));
                }
                Effect::Save { index, ballot, decided } => {
                    assert_eq!(index.0, self.values.len() as u64 + 1, "entries come in order");
                    let value = came(index).unwrap_or(self.next_value);
                    self.next_value += u64::from(value == self.next_value);
                    self.values.push(value);
                    self.records.push(HostRecord::Accept(index, ballot, decided, value));
                }
                Effect::SaveDecided { last } => self.records.push(HostRecord::Decided(last)),
                Effect::Decided { last } => self.decide(last),
                Effect::Send { to, message } => {
                    assert!(message.is_sound(), "it says what is unsound: {message:?}");
                    if let Some((_, last)) = message.body.entry_range() {
                        assert!(last.0 as usize <= self.values.len(), "it sends what it has not");
                    }
                    self.sent.push((to, message));
                }
                _ => {}
            }
        }
    }

    /// Records decided entries. They never change, and as far as it is on disk that they are
    /// decided, they change in no later life either.
    fn decide(&mut self, last: LogIndex) {
        assert!(last.0 as usize <= self.values.len(), "decided what it has not");
        for (index, value) in self.values[..last.0 as usize].iter().enumerate() {
            match self.ledger.get(index) {
                Some(decided) => assert_eq!(decided, value, "entry {} was decided", index + 1),
                None => self.ledger.push(*value),
            }
        }
    }

    /// Syncs this many more records, and reports all that are synced.
    pub fn save(&mut self, count: usize) {
        let end = (self.synced + count).min(self.records.len());
        for record in &self.records[self.synced..end] {
            self.saved.extend(match *record {
                HostRecord::Promise(ballot) => Some(Event::PromiseSaved { ballot }),
                HostRecord::Adopt(ballot, _, last) | HostRecord::Accept(last, ballot, ..) => {
                    Some(Event::Saved { ballot, last })
                }
                HostRecord::Stage(..) | HostRecord::Decided(_) | HostRecord::OpenTear(_) => None,
            });
        }
        self.synced = end;
        while let Some(event) = self.saved.pop_front() {
            self.step(event);
        }
    }

    /// Makes the decided entries durable in the store.
    pub fn flush(&mut self) {
        self.flushed = self.replica.decided().0 as usize;
    }

    /// Crashes, and starts again with the synced records and some of the others.
    pub fn crash(&mut self, kept: usize) {
        self.records.truncate(self.synced + kept);
        self.synced = self.records.len();
        let mut replay = Replay::new(LogIndex(self.flushed as u64));
        replay.replay_open_tear(self.tear);
        let mut values = self.values[..self.flushed].to_vec();
        for record in &self.records {
            match *record {
                HostRecord::Promise(ballot) => replay.replay_promise(ballot),
                HostRecord::Adopt(ballot, from, last) => {
                    replay.replay_adoption(ballot, from, last).expect("the log is sound");
                }
                HostRecord::Stage(index, ballot, value) => {
                    replay.replay_staged(index, ballot, value)
                }
                HostRecord::Accept(index, ballot, decided, value) => {
                    replay.replay_accepted(index, ballot, decided, value).expect("it is sound");
                }
                HostRecord::Decided(last) => replay.replay_decided(last),
                HostRecord::OpenTear(tear) => replay.replay_open_tear(tear),
            }
            while let Some((_, value)) = replay.next_decided() {
                values.push(value);
            }
        }
        let found = replay.finish().expect("the log is sound");
        values.extend(found.tail.values());
        assert_eq!(values.len() as u64, found.last.0, "the log has no holes");
        assert!(values.starts_with(&self.ledger), "what was decided is on disk");
        // A sound member knows what was decided. Any other may replace it as long as this disk has
        // no record that it was.
        self.ledger.truncate(found.decided.0 as usize);
        let ((base, configuration), signs) = self.configured(&values, found.decided);
        let restored = RestoredState {
            node: NODE,
            configuration,
            base,
            signs,
            promised: found.promised,
            accepted_ballot: found.accepted_ballot,
            last: found.last,
            decided: found.decided,
            tear: found.tear,
            lease: LeaseClock::default(),
        };
        self.replica = Replica::restore(restored).expect("it starts again");
        self.values = values;
        self.staged.clear();
        self.saved.clear();
        self.sent.clear();
        self.step(Event::Started { now: self.now });
    }

    /// Returns the configuration in force after the decided entries, with its base, and the
    /// stop-signs that follow.
    fn configured(&self, values: &[u64], decided: LogIndex) -> Configured {
        let (mut current, mut signs) = ((LogIndex(0), configuration(1)), Vec::new());
        for (place, value) in values.iter().enumerate() {
            let Some(configuration) = self.signs.get(value) else { continue };
            let sign = (LogIndex(place as u64 + 1), configuration.clone());
            match sign.0 <= decided {
                true => current = sign,
                false => signs.push(sign),
            }
        }
        (current, signs)
    }
}

/// Configuration with its base, and the stop-signs after it.
type Configured = ((LogIndex, Configuration), Vec<(LogIndex, Configuration)>);

//! Writers of records with an indexed number: they change records and add new ones, one write at a
//! time, each until it is acknowledged, and know what each record may hold.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use systest::client::{CallOutcome, Resp, encode_command};

/// Terms of the records that were loaded are below it, and those of the writers are not: each of
/// them is written once.
const WRITTEN_TERM_MIN: u64 = 1_000;
/// Connections that load records, and the records that each sends at once.
const LOADERS: usize = 8;
const LOADED_AT_ONCE: usize = 200;
/// One write of so many adds a record.
const ADDING_PART: usize = 4;
/// Pause between two writes of a client: the load is moderate, so that there is room for a build.
const WRITE_PAUSE: Duration = Duration::from_millis(5);
/// Pause of a client before it tries the next node.
const FAILOVER_PAUSE: Duration = Duration::from_millis(20);
/// Time that a client waits for an answer: longer than an election.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the term with which a record is loaded.
pub fn loaded_term(number: usize) -> u64 {
    number as u64 % WRITTEN_TERM_MIN
}

/// Returns the command that writes a record.
fn set_command(number: usize, term: u64) -> Vec<u8> {
    let value = format!("{{\"n\":{term},\"text\":\"{:060}\"}}", number ^ term as usize);
    encode_command(&[b"SET", format!("r{number:09}").as_bytes(), value.as_bytes()])
}

/// Loads this many records through a node.
pub fn load(address: SocketAddr, records: usize) {
    std::thread::scope(|threads| {
        for loader in 0..LOADERS {
            threads.spawn(move || {
                let mut connection = Resp::with_timeout(address, Duration::from_secs(60))
                    .expect("the master takes connections");
                let mut own = (loader..records).step_by(LOADERS).peekable();
                while own.peek().is_some() {
                    load_batch(&mut connection, own.by_ref().take(LOADED_AT_ONCE).collect());
                }
            });
        }
    });
}

/// Writes these records, and those that are refused again.
fn load_batch(connection: &mut Resp, mut numbers: Vec<usize>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !numbers.is_empty() {
        let commands = numbers.iter().flat_map(|number| set_command(*number, loaded_term(*number)));
        connection.send(&commands.collect::<Vec<_>>()).expect("the master reads");
        let mut refusal = None;
        numbers.retain(|_| {
            let reply = connection.receive().expect("the master answers");
            let is_loaded = reply.outcome().is_acknowledged();
            if !is_loaded {
                refusal = Some(reply);
            }
            !is_loaded
        });
        if let Some(refusal) = refusal {
            assert!(Instant::now() < deadline, "{refusal:?}");
            std::thread::sleep(FAILOVER_PAUSE);
        }
    }
}

/// Writes of one record. All are of one client.
#[derive(Debug, Default)]
struct RecordWrites {
    /// Term of the last acknowledged write.
    acked: Option<u64>,
    /// Terms of attempts without a clear answer: each may take effect at any time, or never.
    doubtful: Vec<u64>,
}

/// Writes of clients, by record.
#[derive(Debug, Default)]
pub struct WriteLedger {
    writes: BTreeMap<usize, RecordWrites>,
    /// Time at which each acknowledged write began, and its duration, with all its attempts.
    pub latencies: Vec<(Duration, Duration)>,
    /// Number of attempts that certainly had no effect.
    pub refused: u64,
    /// Number of attempts without a clear answer.
    pub unknown: u64,
}

impl WriteLedger {
    /// Adds the record of another client, which wrote other records.
    pub fn join(&mut self, other: WriteLedger) {
        self.writes.extend(other.writes);
        self.latencies.extend(other.latencies);
        self.refused += other.refused;
        self.unknown += other.unknown;
    }

    /// Returns the number of acknowledged writes.
    pub fn ok(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// Returns the highest number of a record that was written; 0 if there is none.
    pub fn last_number(&self) -> usize {
        self.writes.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Returns true if a record may have this term, or be absent (`None`). `initial`: the term that
    /// it was loaded with, if it was.
    pub fn allows(&self, number: usize, initial: Option<u64>, found: Option<u64>) -> bool {
        let Some(writes) = self.writes.get(&number) else { return found == initial };
        found == writes.acked.or(initial)
            || found.is_some_and(|term| writes.doubtful.contains(&term))
    }
}

/// One client.
pub struct RecordWriter<'a> {
    client: usize,
    clients: usize,
    /// Number of records that were loaded.
    records: usize,
    addresses: &'a [SocketAddr],
    clock: Instant,
    /// Node that it uses, and its connection.
    node: usize,
    connection: Option<Resp>,
    record: WriteLedger,
}

impl RecordWriter<'_> {
    /// Creates a client, by its number and the number of all, which begins at a node of its own.
    pub fn new(
        (client, clients): (usize, usize),
        records: usize,
        addresses: &[SocketAddr],
        clock: Instant,
    ) -> RecordWriter<'_> {
        let (connection, record) = (None, WriteLedger::default());
        RecordWriter {
            client,
            clients,
            records,
            addresses,
            clock,
            node: client,
            connection,
            record,
        }
    }

    /// Writes until it is stopped; returns its record.
    pub fn run(mut self, stop: &AtomicBool) -> WriteLedger {
        let mut random = self.client as u64 + 1;
        for turn in 0.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let number = match turn % ADDING_PART {
                0 => self.records + self.client + self.clients * (turn / ADDING_PART),
                _ => {
                    random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                    let own = (random >> 33) as usize % (self.records / self.clients);
                    self.client + self.clients * own
                }
            };
            let term = WRITTEN_TERM_MIN + (self.client + self.clients * turn) as u64;
            self.write(number, term, stop);
            std::thread::sleep(WRITE_PAUSE);
        }
        self.record
    }

    /// Writes a record until that is acknowledged, or the client is stopped.
    fn write(&mut self, number: usize, term: u64, stop: &AtomicBool) {
        let (begun, command) = (self.clock.elapsed(), set_command(number, term));
        while !stop.load(Ordering::SeqCst) {
            let outcome = self.attempt(&command);
            let writes = self.record.writes.entry(number).or_default();
            match outcome {
                CallOutcome::Acknowledged(()) => {
                    writes.acked = Some(term);
                    self.record.latencies.push((begun, self.clock.elapsed() - begun));
                    return;
                }
                CallOutcome::Refused => self.record.refused += 1,
                CallOutcome::Unknown => {
                    writes.doubtful.push(term);
                    self.record.unknown += 1;
                }
            }
            (self.connection, self.node) = (None, self.node + 1);
            std::thread::sleep(FAILOVER_PAUSE);
        }
    }

    fn attempt(&mut self, command: &[u8]) -> CallOutcome {
        if self.connection.is_none() {
            let address = self.addresses[self.node % self.addresses.len()];
            self.connection = Resp::with_timeout(address, ANSWER_TIMEOUT).ok();
        }
        let Some(connection) = &mut self.connection else { return CallOutcome::Refused };
        let reply = connection.send(command).and_then(|()| connection.receive());
        reply.map_or(CallOutcome::Unknown, |reply| reply.outcome())
    }
}

#[test]
fn record_allows_what_was_acknowledged_or_is_in_doubt_alone() {
    let mut record = WriteLedger::default();
    assert!(record.allows(1, Some(1), Some(1)) && record.allows(9, None, None));
    assert!(!record.allows(1, Some(1), None) && !record.allows(9, None, Some(7)));
    record.writes.insert(1, RecordWrites { acked: Some(2_000), doubtful: vec![1_500] });
    let allowed = [Some(1), Some(1_500), Some(2_000), None];
    assert_eq!(allowed.map(|found| record.allows(1, Some(1), found)), [false, true, true, false]);
    record.writes.insert(9, RecordWrites { acked: None, doubtful: vec![3_000] });
    assert_eq!([None, Some(3_000)].map(|found| record.allows(9, None, found)), [true; 2]);
}

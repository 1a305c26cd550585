//! Ledger of acknowledged writes by key, and the judge that compares it with the rows found after a
//! test.
//!
//! Each key has one writer, which counts its writes of it. A key's state is a function of that
//! count, so after any crash the state found must be the one after the last acknowledged write, or
//! after one of the writes whose outcome is unknown. A key with an unknown outcome is retired:
//! nobody writes it again.

use super::ClientRecord;
use super::orders::Orders;
use crate::client::{CallOutcome, Resp, RespReply, command, encoded};
use crate::workload::CallOutcome::Acknowledged;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

/// Acknowledgements of one key.
#[derive(Clone, Debug, Default)]
struct Track {
    /// Number of the last acknowledged write. 0: none.
    acked: u64,
    /// Numbers of later writes whose outcome is unknown.
    maybe: Vec<u64>,
    /// Number of the last attempted write.
    tried: u64,
    /// Approximate size of its values, in bytes.
    bytes: usize,
}

/// Ledger of all clients.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    tracks: BTreeMap<String, Track>,
    /// Number of acknowledged calls.
    pub ok: u64,
    /// Number of calls that certainly had no effect.
    pub fail: u64,
    /// Number of calls whose outcome is unknown.
    pub info: u64,
    /// Texts of refusals, with their counts.
    pub refusals: BTreeMap<String, u64>,
}

/// Verdict of the judge.
#[derive(Clone, Debug, Default)]
pub struct LedgerVerdict {
    /// Number of keys that were compared.
    pub checked: u64,
    /// Acknowledged writes whose effect is gone.
    pub lost: Vec<String>,
    /// Values that nobody wrote, such as torn or mixed ones, and values of refused writes.
    pub strange: Vec<String>,
}

/// Load of one client.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// Number of the client; its keys differ from those of other clients.
    pub client: usize,
    /// Number of keys that it writes in turn.
    pub keys: usize,
    /// Number of calls that it sends before it waits for the answers.
    pub depth: usize,
    /// Approximate size of values, in bytes.
    pub bytes: usize,
    /// Front-end that it uses.
    pub protocol: ClientProtocol,
}

/// Front-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProtocol {
    /// RESP, pipelined.
    Resp,
    /// The native HTTP front-end, one call at a time.
    Http,
}

/// Returns the state of a key after its `count`th write. `None`: that write deletes.
pub fn state(key: &str, count: u64, bytes: usize) -> Option<Vec<u8>> {
    if count == 0 || count.is_multiple_of(11) {
        return None;
    }
    let mut value = format!("{key}#{count}#").into_bytes();
    let seed = xxhash_rust::xxh3::xxh3_64(&value);
    let length = value.len() + (seed as usize % bytes.max(1));
    let mut word = seed;
    while value.len() < length {
        word = word.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) ^ seed;
        value.extend_from_slice(&word.to_le_bytes());
    }
    Some(value)
}

impl Ledger {
    /// Writes until stopped, or until the connection breaks or the client must leave the node.
    pub fn write(&mut self, address: SocketAddr, how: Writing, orders: &Orders) {
        let ended = match how.protocol {
            ClientProtocol::Resp => self.write_resp(address, how, orders),
            ClientProtocol::Http => self.write_http(address, how, orders),
        };
        if let Err(error) = ended {
            *self.refusals.entry(format!("connection: {}", error.kind())).or_default() += 1;
        }
    }

    fn write_resp(&mut self, address: SocketAddr, how: Writing, orders: &Orders) -> io::Result<()> {
        let mut connection = orders.resp(address)?;
        let mut next = self.calls();
        while !orders.stopped() {
            let refused_before = self.fail;
            let mut bytes = Vec::new();
            let mut batch = Vec::new();
            for _ in 0..how.depth {
                let (key, count) = self.attempt(how, next);
                next += 1;
                bytes.extend(match state(&key, count, how.bytes) {
                    Some(value) => command(&[b"SET", key.as_bytes(), &value]),
                    None => command(&[b"DEL", key.as_bytes()]),
                });
                batch.push((key, count));
            }
            let mut sent = connection.send(&bytes);
            for (key, count) in batch {
                let answer = match &sent {
                    Ok(()) => connection.receive(),
                    Err(error) => Err(error.kind().into()),
                };
                match answer {
                    Ok(word) => {
                        let fate = orders.context.believed(word.outcome());
                        self.settle(&key, count, fate, &refusal(&word));
                    }
                    Err(error) => {
                        self.settle(&key, count, CallOutcome::Unknown, "");
                        sent = Err(error);
                    }
                }
            }
            sent?;
            orders.content(refused_before, self.fail)?;
        }
        Ok(())
    }

    fn write_http(&mut self, address: SocketAddr, how: Writing, orders: &Orders) -> io::Result<()> {
        let mut connection = orders.http(address)?;
        let mut next = self.calls();
        while !orders.stopped() {
            let refused_before = self.fail;
            let (key, count) = self.attempt(how, next);
            next += 1;
            let path = format!("/v1/buckets/default/default/keys/{}", encoded(key.as_bytes()));
            let octets = [("content-type", "application/octet-stream")];
            let answer = match state(&key, count, how.bytes) {
                Some(value) => connection.ask_with("PUT", &path, &octets, &value),
                None => connection.ask("DELETE", &path, b""),
            };
            match answer {
                Ok(answer) => {
                    let fate = match answer.status {
                        200..=299 | 404 => Acknowledged(()),
                        500 | 504 => CallOutcome::Unknown,
                        _ => CallOutcome::Refused,
                    };
                    self.settle(&key, count, orders.context.believed(fate), &answer.reason());
                    // The server closes the connection after this answer and reads nothing more.
                    if answer.header("connection") == Some("close") {
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.settle(&key, count, CallOutcome::Unknown, "");
                    return Err(error);
                }
            }
            orders.content(refused_before, self.fail)?;
        }
        Ok(())
    }

    /// Returns the number of calls.
    fn calls(&self) -> usize {
        (self.ok + self.fail + self.info) as usize
    }

    /// Chooses the key of the `next`th call and counts the attempt; retired keys get a successor.
    fn attempt(&mut self, how: Writing, next: usize) -> (String, u64) {
        let mut key = format!("c{:03}-{:05}", how.client, next % how.keys);
        while self.tracks.get(&key).is_some_and(|track| !track.maybe.is_empty()) {
            key.push('+');
        }
        let track = self.tracks.entry(key.clone()).or_default();
        track.tried += 1;
        track.bytes = how.bytes;
        (key, track.tried)
    }

    /// Records the outcome of an attempt.
    fn settle(&mut self, key: &str, count: u64, fate: CallOutcome, why: &str) {
        let track = self.tracks.get_mut(key).expect("an attempt was noted before");
        match fate {
            Acknowledged(()) => {
                self.ok += 1;
                track.acked = count;
                track.maybe.clear();
            }
            CallOutcome::Refused => self.fail += 1,
            CallOutcome::Unknown => {
                self.info += 1;
                track.maybe.push(count);
            }
        }
        if fate != Acknowledged(()) && !why.is_empty() {
            *self.refusals.entry(why.chars().take(60).collect()).or_default() += 1;
        }
    }

    /// Records an attempt and its outcome without a server, to test the judge.
    pub fn pretend(&mut self, how: Writing, next: usize, fate: CallOutcome) {
        let (key, count) = self.attempt(how, next);
        self.settle(&key, count, fate, "");
    }

    /// Adds the records of another ledger, whose keys must be different.
    pub fn join(&mut self, other: Ledger) {
        self.tracks.extend(other.tracks);
        self.ok += other.ok;
        self.fail += other.fail;
        self.info += other.info;
        for (why, count) in other.refusals {
            *self.refusals.entry(why).or_default() += count;
        }
    }

    /// Returns the number of keys with an acknowledged write.
    pub fn keys(&self) -> usize {
        self.tracks.values().filter(|track| track.acked > 0).count()
    }

    /// Reads every key and compares it with the ledger. Fails if the server can't be read at all.
    pub fn judge(&self, address: SocketAddr) -> io::Result<LedgerVerdict> {
        let mut connection = Resp::connect(address)?;
        let mut verdict = LedgerVerdict::default();
        let keys: Vec<_> = self.tracks.iter().collect();
        for part in keys.chunks(256) {
            let asked: Vec<_> = part.iter().map(|(key, _)| ["GET", key]).collect();
            let bytes: Vec<u8> = asked
                .iter()
                .flat_map(|[get, key]| command(&[get.as_bytes(), key.as_bytes()]))
                .collect();
            connection.send(&bytes)?;
            for (key, track) in part {
                let found = connection.receive()?;
                verdict.compare(key, track, &found);
            }
        }
        Ok(verdict)
    }

    /// Compares the ledger with a plain table, for writers that are no server.
    pub fn judge_table(&self, table: &BTreeMap<String, Vec<u8>>) -> LedgerVerdict {
        let mut verdict = LedgerVerdict::default();
        for (key, track) in &self.tracks {
            verdict.compare(key, track, &RespReply::Bulk(table.get(key).cloned()));
        }
        verdict
    }
}

impl ClientRecord for Ledger {
    fn join(&mut self, other: Ledger) {
        Ledger::join(self, other);
    }
}

impl LedgerVerdict {
    fn compare(&mut self, key: &str, track: &Track, found: &RespReply) {
        self.checked += 1;
        let found = match found {
            RespReply::Bulk(found) => found.as_deref(),
            other => {
                self.strange.push(format!("{key}: not readable: {other:?}"));
                return;
            }
        };
        let is = |count: u64| state(key, count, track.bytes).as_deref() == found;
        if is(track.acked) || track.maybe.iter().any(|&count| is(count)) {
            return;
        }
        match (0..=track.tried).rev().find(|&count| is(count)) {
            Some(older) if older < track.acked => {
                self.lost.push(format!("{key}: acknowledged {}, found {older}", track.acked));
            }
            Some(refused) => {
                self.strange.push(format!("{key}: found {refused}, which was refused"));
            }
            None => {
                let length = found.map_or(0, <[u8]>::len);
                self.strange.push(format!("{key}: {length} bytes that nobody wrote"));
            }
        }
    }

    /// Panics if a write is lost or a value is strange.
    pub fn must_be_clean(&self) {
        let first = |list: &[String]| list.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
        assert!(
            self.lost.is_empty() && self.strange.is_empty(),
            "of {} keys {} lost ({}), {} strange ({})",
            self.checked,
            self.lost.len(),
            first(&self.lost),
            self.strange.len(),
            first(&self.strange)
        );
    }
}

fn refusal(word: &RespReply) -> String {
    word.error().unwrap_or("").into()
}

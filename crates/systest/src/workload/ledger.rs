//! Ledger of acknowledged writes by key, and the judge that compares it with the rows found after a
//! test.
//!
//! Each key has one writer, which counts its writes of it. A key's state is a function of that
//! count, so after any crash the state found must be the one after the last acknowledged write, or
//! after one of the writes whose outcome is unknown. A key with an unknown outcome is retired:
//! nobody writes it again.

use super::ClientRecord;
use super::client_control::ClientControl;
use crate::client::{CallOutcome, Resp, RespReply, encode_command, encode_key};
use crate::workload::CallOutcome::Acknowledged;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

/// Acknowledgements of one key.
#[derive(Clone, Debug, Default)]
struct KeyRecord {
    /// Number of the last acknowledged write. 0: none.
    acknowledged: u64,
    /// Numbers of later writes whose outcome is unknown.
    unknown: Vec<u64>,
    /// Number of the last attempted write.
    attempted: u64,
    /// Approximate size of its values, in bytes.
    bytes: usize,
}

/// Ledger of all clients.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    records: BTreeMap<String, KeyRecord>,
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
    pub unexpected: Vec<String>,
}

/// Load of one client.
#[derive(Clone, Copy, Debug)]
pub struct WriterPlan {
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
pub fn value_after(key: &str, count: u64, bytes: usize) -> Option<Vec<u8>> {
    if count == 0 || count.is_multiple_of(11) {
        return None;
    }
    let mut value = format!("{key}#{count}#").into_bytes();
    let seed = xxhash_rust::xxh3::xxh3_64(&value);
    let length = value.len() + (seed as usize % bytes.max(1));
    let mut random = seed;
    while value.len() < length {
        random = random.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) ^ seed;
        value.extend_from_slice(&random.to_le_bytes());
    }
    Some(value)
}

impl Ledger {
    /// Writes until stopped, or until the connection breaks or the client must leave the node.
    pub fn write(&mut self, address: SocketAddr, plan: WriterPlan, control: &ClientControl) {
        let result = match plan.protocol {
            ClientProtocol::Resp => self.write_resp(address, plan, control),
            ClientProtocol::Http => self.write_http(address, plan, control),
        };
        if let Err(error) = result {
            *self.refusals.entry(format!("connection: {}", error.kind())).or_default() += 1;
        }
    }

    fn write_resp(
        &mut self,
        address: SocketAddr,
        plan: WriterPlan,
        control: &ClientControl,
    ) -> io::Result<()> {
        let mut connection = control.resp(address)?;
        let mut next = self.calls();
        while !control.is_stopped() {
            let refused_before = self.fail;
            let mut bytes = Vec::new();
            let mut batch = Vec::new();
            for _ in 0..plan.depth {
                let (key, count) = self.attempt(plan, next);
                next += 1;
                bytes.extend(match value_after(&key, count, plan.bytes) {
                    Some(value) => encode_command(&[b"SET", key.as_bytes(), &value]),
                    None => encode_command(&[b"DEL", key.as_bytes()]),
                });
                batch.push((key, count));
            }
            let mut send_result = connection.send(&bytes);
            for (key, count) in batch {
                let answer = match &send_result {
                    Ok(()) => connection.receive(),
                    Err(error) => Err(error.kind().into()),
                };
                match answer {
                    Ok(reply) => {
                        let outcome = control.context.recorded_outcome(reply.outcome());
                        self.record_outcome(&key, count, outcome, &error_text(&reply));
                    }
                    Err(error) => {
                        self.record_outcome(&key, count, CallOutcome::Unknown, "");
                        send_result = Err(error);
                    }
                }
            }
            send_result?;
            control.check_refusals(refused_before, self.fail)?;
        }
        Ok(())
    }

    fn write_http(
        &mut self,
        address: SocketAddr,
        plan: WriterPlan,
        control: &ClientControl,
    ) -> io::Result<()> {
        let mut connection = control.http(address)?;
        let mut next = self.calls();
        while !control.is_stopped() {
            let refused_before = self.fail;
            let (key, count) = self.attempt(plan, next);
            next += 1;
            let path = format!("/v1/buckets/default/default/keys/{}", encode_key(key.as_bytes()));
            let headers = [("content-type", "application/octet-stream")];
            let answer = match value_after(&key, count, plan.bytes) {
                Some(value) => connection.request_with_headers("PUT", &path, &headers, &value),
                None => connection.request("DELETE", &path, b""),
            };
            match answer {
                Ok(answer) => {
                    let outcome = match answer.status {
                        200..=299 | 404 => Acknowledged(()),
                        500 | 504 => CallOutcome::Unknown,
                        _ => CallOutcome::Refused,
                    };
                    self.record_outcome(
                        &key,
                        count,
                        control.context.recorded_outcome(outcome),
                        &answer.reason(),
                    );
                    // The server closes the connection after this answer and reads nothing more.
                    if answer.header("connection") == Some("close") {
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.record_outcome(&key, count, CallOutcome::Unknown, "");
                    return Err(error);
                }
            }
            control.check_refusals(refused_before, self.fail)?;
        }
        Ok(())
    }

    /// Returns the number of calls.
    fn calls(&self) -> usize {
        (self.ok + self.fail + self.info) as usize
    }

    /// Chooses the key of the `next`th call and counts the attempt; retired keys get a successor.
    fn attempt(&mut self, plan: WriterPlan, next: usize) -> (String, u64) {
        let mut key = format!("c{:03}-{:05}", plan.client, next % plan.keys);
        while self.records.get(&key).is_some_and(|record| !record.unknown.is_empty()) {
            key.push('+');
        }
        let record = self.records.entry(key.clone()).or_default();
        record.attempted += 1;
        record.bytes = plan.bytes;
        (key, record.attempted)
    }

    /// Records the outcome of an attempt.
    fn record_outcome(&mut self, key: &str, count: u64, outcome: CallOutcome, reason: &str) {
        let record = self.records.get_mut(key).expect("an attempt was noted before");
        match outcome {
            Acknowledged(()) => {
                self.ok += 1;
                record.acknowledged = count;
                record.unknown.clear();
            }
            CallOutcome::Refused => self.fail += 1,
            CallOutcome::Unknown => {
                self.info += 1;
                record.unknown.push(count);
            }
        }
        if outcome != Acknowledged(()) && !reason.is_empty() {
            *self.refusals.entry(reason.chars().take(60).collect()).or_default() += 1;
        }
    }

    /// Records an attempt and its outcome without a server, to test the judge.
    pub fn record_simulated(&mut self, plan: WriterPlan, next: usize, outcome: CallOutcome) {
        let (key, count) = self.attempt(plan, next);
        self.record_outcome(&key, count, outcome, "");
    }

    /// Adds the records of another ledger, whose keys must be different.
    pub fn join(&mut self, other: Ledger) {
        self.records.extend(other.records);
        self.ok += other.ok;
        self.fail += other.fail;
        self.info += other.info;
        for (reason, count) in other.refusals {
            *self.refusals.entry(reason).or_default() += count;
        }
    }

    /// Returns the number of keys with an acknowledged write.
    pub fn keys(&self) -> usize {
        self.records.values().filter(|record| record.acknowledged > 0).count()
    }

    /// Reads every key and compares it with the ledger. Fails if the server can't be read at all.
    pub fn judge(&self, address: SocketAddr) -> io::Result<LedgerVerdict> {
        let mut connection = Resp::connect(address)?;
        let mut verdict = LedgerVerdict::default();
        let keys: Vec<_> = self.records.iter().collect();
        for batch in keys.chunks(256) {
            let gets: Vec<_> = batch.iter().map(|(key, _)| ["GET", key]).collect();
            let bytes: Vec<u8> = gets
                .iter()
                .flat_map(|[get, key]| encode_command(&[get.as_bytes(), key.as_bytes()]))
                .collect();
            connection.send(&bytes)?;
            for (key, record) in batch {
                let found = connection.receive()?;
                verdict.compare(key, record, &found);
            }
        }
        Ok(verdict)
    }

    /// Compares the ledger with a plain table, for writers that are no server.
    pub fn judge_table(&self, table: &BTreeMap<String, Vec<u8>>) -> LedgerVerdict {
        let mut verdict = LedgerVerdict::default();
        for (key, record) in &self.records {
            verdict.compare(key, record, &RespReply::Bulk(table.get(key).cloned()));
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
    fn compare(&mut self, key: &str, record: &KeyRecord, reply: &RespReply) {
        self.checked += 1;
        let reply = match reply {
            RespReply::Bulk(reply) => reply.as_deref(),
            other => {
                self.unexpected.push(format!("{key}: not readable: {other:?}"));
                return;
            }
        };
        let matches_write = |count: u64| value_after(key, count, record.bytes).as_deref() == reply;
        if matches_write(record.acknowledged)
            || record.unknown.iter().any(|&count| matches_write(count))
        {
            return;
        }
        match (0..=record.attempted).rev().find(|&count| matches_write(count)) {
            Some(older) if older < record.acknowledged => {
                self.lost
                    .push(format!("{key}: acknowledged {}, found {older}", record.acknowledged));
            }
            Some(refused) => {
                self.unexpected.push(format!("{key}: found {refused}, which was refused"));
            }
            None => {
                let length = reply.map_or(0, <[u8]>::len);
                self.unexpected.push(format!("{key}: {length} bytes that nobody wrote"));
            }
        }
    }

    /// Panics if a write is lost or a value is strange.
    pub fn must_be_clean(&self) {
        let first = |list: &[String]| list.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
        assert!(
            self.lost.is_empty() && self.unexpected.is_empty(),
            "of {} keys {} lost ({}), {} strange ({})",
            self.checked,
            self.lost.len(),
            first(&self.lost),
            self.unexpected.len(),
            first(&self.unexpected)
        );
    }
}

fn error_text(reply: &RespReply) -> String {
    reply.error().unwrap_or("").into()
}

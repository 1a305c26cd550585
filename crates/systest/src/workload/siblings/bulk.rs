//! Bulk load: many rows, each written once at full speed, as ballast for experiments.

use super::{SiblingAction, SiblingCall, SiblingHistory, SiblingOp};
use crate::client::{CallOutcome, Resp, RespReply, encode_command};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Number of writes that one connection has in flight.
const PIPELINE: usize = 64;
/// Timeout of a writer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause before a write that was refused as overloaded is repeated; the test fails once it was
/// refused for [`REFUSED_MAX`].
const OVERLOAD_PAUSE: Duration = Duration::from_millis(100);
const OVERLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Rows of a bulk load: keys `NAME-000000042`, each with a value that begins with its key.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Bucket, as `TYPE/BUCKET`.
    pub bucket_path: String,
    /// Prefix of the keys.
    pub name: String,
    /// Numbers of the keys.
    pub keys: Range<usize>,
    /// Size of each value, in bytes; at least the key and a full stop.
    pub bytes: usize,
}

impl Bulk {
    /// Returns the name of a key.
    pub fn key(&self, at: usize) -> String {
        format!("{}-{at:09}", self.name)
    }

    /// Returns the value of a key.
    pub fn value(&self, at: usize) -> String {
        let mut value = format!("{}.", self.key(at));
        value.extend(std::iter::repeat_n('x', self.bytes.saturating_sub(value.len())));
        value
    }

    /// Writes all rows through these nodes, two connections each. Panics if a write fails.
    pub fn write(&self, nodes: &[SocketAddr]) {
        let writers = 2 * nodes.len();
        let keys_per_writer = self.keys.len().div_ceil(writers).max(1);
        std::thread::scope(|threads| {
            for (at, begin) in self.keys.clone().step_by(keys_per_writer).enumerate() {
                let keys = begin..(begin + keys_per_writer).min(self.keys.end);
                threads.spawn(move || self.write_range(nodes[at % nodes.len()], keys));
            }
        });
    }

    fn write_range(&self, node: SocketAddr, keys: Range<usize>) {
        let mut redis = Resp::with_timeout(node, ANSWER_TIMEOUT).expect("the node runs");
        let reply = redis.call(&[b"CREDENZA.BUCKET", self.bucket_path.as_bytes()]);
        assert!(matches!(reply, Ok(RespReply::Simple(_))), "{reply:?}");
        for begin in keys.clone().step_by(PIPELINE) {
            let mut batch: Vec<usize> = (begin..(begin + PIPELINE).min(keys.end)).collect();
            let deadline = Instant::now() + OVERLOAD_TIMEOUT;
            loop {
                batch = self.write_batch(&mut redis, &batch);
                if batch.is_empty() {
                    break;
                }
                assert!(Instant::now() < deadline, "refused again and again: {}", batch.len());
                std::thread::sleep(OVERLOAD_PAUSE);
            }
        }
    }

    /// Writes some rows in one batch. Returns those that the node refused as overloaded, which had
    /// no effect.
    fn write_batch(&self, redis: &mut Resp, batch: &[usize]) -> Vec<usize> {
        let rows = batch.iter().map(|at| (self.key(*at), self.value(*at)));
        let bytes: Vec<u8> = rows
            .flat_map(|(key, value)| encode_command(&[b"SET", key.as_bytes(), value.as_bytes()]))
            .collect();
        redis.send(&bytes).expect("it is taken");
        let refused = batch.iter().copied().filter(|_| match redis.receive() {
            Ok(RespReply::Simple(_)) => false,
            Ok(RespReply::Error(text)) if text.starts_with("OVERLOADED") => true,
            other => panic!("{other:?}"),
        });
        refused.collect()
    }

    /// Returns the writes as a history for the checker, untimed.
    pub fn history(&self) -> SiblingHistory {
        let call = |at| {
            let (key, action) = (self.key(at), SiblingAction::Write(self.value(at)));
            let op = SiblingOp { key, action, seen: BTreeSet::new() };
            SiblingCall::untimed(op, CallOutcome::Acknowledged(None))
        };
        SiblingHistory { calls: self.keys.clone().map(call).collect(), ..SiblingHistory::default() }
    }
}

//! Bulk load: many rows, each written once at full speed, as ballast for experiments.

use super::{SiblingAction, SiblingCall, SiblingHistory, SiblingOp};
use crate::client::{CallOutcome, Resp, RespReply, command};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Number of writes that one connection has in flight.
const PIPELINE: usize = 64;
/// Timeout of a writer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a write that was refused as overloaded is repeated; the test fails once it was
/// refused for [`REFUSED_MAX`].
const REST: Duration = Duration::from_millis(100);
const REFUSED_MAX: Duration = Duration::from_secs(60);

/// Rows of a bulk load: keys `NAME-000000042`, each with a value that begins with its key.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Bucket, as `TYPE/BUCKET`.
    pub place: String,
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
        let each = self.keys.len().div_ceil(writers).max(1);
        std::thread::scope(|threads| {
            for (at, begin) in self.keys.clone().step_by(each).enumerate() {
                let keys = begin..(begin + each).min(self.keys.end);
                threads.spawn(move || self.write_some(nodes[at % nodes.len()], keys));
            }
        });
    }

    fn write_some(&self, node: SocketAddr, keys: Range<usize>) {
        let mut redis = Resp::with_patience(node, PATIENCE).expect("the node runs");
        let chosen = redis.call(&[b"CREDENZA.BUCKET", self.place.as_bytes()]);
        assert!(matches!(chosen, Ok(RespReply::Simple(_))), "{chosen:?}");
        for begin in keys.clone().step_by(PIPELINE) {
            let mut some: Vec<usize> = (begin..(begin + PIPELINE).min(keys.end)).collect();
            let until = Instant::now() + REFUSED_MAX;
            loop {
                some = self.write_these(&mut redis, &some);
                if some.is_empty() {
                    break;
                }
                assert!(Instant::now() < until, "refused again and again: {}", some.len());
                std::thread::sleep(REST);
            }
        }
    }

    /// Writes some rows in one batch. Returns those that the node refused as overloaded, which had
    /// no effect.
    fn write_these(&self, redis: &mut Resp, some: &[usize]) -> Vec<usize> {
        let words = some.iter().map(|at| (self.key(*at), self.value(*at)));
        let bytes: Vec<u8> = words
            .flat_map(|(key, value)| command(&[b"SET", key.as_bytes(), value.as_bytes()]))
            .collect();
        redis.send(&bytes).expect("it is taken");
        let refused = some.iter().copied().filter(|_| match redis.receive() {
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

//! Many rows written once, as fast as they are taken: the weight that experiments carry beside
//! their clients.

use super::{SiblingAction, SiblingCall, SiblingHistory, SiblingOp};
use crate::client::{Outcome, Resp, RespReply, command};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// So many writes of one connection are on their way at a time.
const PIPELINE: usize = 64;
/// A writer waits so long for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Who is refused for lack of room comes again after this, and gives up after so long.
const REST: Duration = Duration::from_millis(100);
const REFUSED_MAX: Duration = Duration::from_secs(60);

/// What is written: keys `NAME-000000042`, each with a value that begins with its key.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// `TYPE/BUCKET`.
    pub place: String,
    /// What keys begin with.
    pub name: String,
    /// Which keys.
    pub keys: Range<usize>,
    /// The bytes of each value.
    pub bytes: usize,
}

impl Bulk {
    /// The name of a key.
    pub fn key(&self, at: usize) -> String {
        format!("{}-{at:09}", self.name)
    }

    /// A key's value.
    pub fn value(&self, at: usize) -> String {
        let mut value = format!("{}.", self.key(at));
        value.extend(std::iter::repeat_n('x', self.bytes.saturating_sub(value.len())));
        value
    }

    /// Writes all of it through these nodes, two connections each; every write must be taken.
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

    /// Writes some at once; gives those that the node had no room for, and that surely did nothing.
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
            SiblingCall::untimed(op, Outcome::Acknowledged(None))
        };
        SiblingHistory { calls: self.keys.clone().map(call).collect(), ..SiblingHistory::default() }
    }
}

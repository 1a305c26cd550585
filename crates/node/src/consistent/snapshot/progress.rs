//! How far a snapshot is that comes from another node.

use crate::world;
use base::{GroupId, LogIndex, NodeId};

/// A snapshot that is being received.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub group: GroupId,
    pub from: NodeId,
    /// The state will be that after this value; 0 until it is known.
    pub upto: LogIndex,
    pub rows: u64,
    pub bytes: u64,
    /// At most about so many rows in all; 0 until it is known.
    pub rows_about: u64,
    /// How often it went on after something was lost.
    pub resumed: u64,
    /// How often it began anew.
    pub anew: u64,
    begun_ms: u64,
}

impl Progress {
    pub fn begin(group: GroupId, from: NodeId) -> Progress {
        Progress {
            group,
            from,
            upto: LogIndex(0),
            rows: 0,
            bytes: 0,
            rows_about: 0,
            resumed: 0,
            anew: 0,
            begun_ms: world::milliseconds(),
        }
    }

    /// Rows a second since it began.
    pub fn rows_per_second(&self) -> u64 {
        rate(self.rows, self.elapsed_ms())
    }

    /// Bytes a second since it began.
    pub fn bytes_per_second(&self) -> u64 {
        rate(self.bytes, self.elapsed_ms())
    }

    /// At most about how long it still takes, milliseconds; none: nobody knows yet.
    pub fn left_ms(&self) -> Option<u64> {
        let (rows, left) = (self.rows, self.rows_about.saturating_sub(self.rows));
        let elapsed = self.elapsed_ms();
        (rows > 0).then(|| {
            u64::try_from(u128::from(left) * u128::from(elapsed) / u128::from(rows))
                .unwrap_or(u64::MAX)
        })
    }

    fn elapsed_ms(&self) -> u64 {
        world::milliseconds().saturating_sub(self.begun_ms)
    }
}

fn rate(amount: u64, elapsed_ms: u64) -> u64 {
    amount.saturating_mul(1_000) / elapsed_ms.max(1)
}

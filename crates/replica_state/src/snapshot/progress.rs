//! Progress of a snapshot that is received from another node.

use base::{GroupId, LogIndex, NodeId};
use runtime::world;

/// Progress of a snapshot that is received from another node.
#[derive(Clone, Debug, Default)]
pub struct SnapshotStatus {
    /// Group of the snapshot.
    pub group: GroupId,
    /// Member that sends it.
    pub from: NodeId,
    /// Index of the last entry in the state. 0 until it is known.
    pub last_index: LogIndex,
    /// Number of rows received.
    pub rows: u64,
    /// Upper estimate of the number of rows. 0 until it is known.
    pub rows_estimated: u64,
    /// Number of bytes of keys and values received.
    pub bytes: u64,
    /// Average rate since it began, in bytes a second.
    pub bytes_per_second: u64,
    /// Upper estimate of the remaining time, in milliseconds. `None`: unknown yet.
    pub eta_ms: Option<u64>,
    /// Number of times it resumed after a loss.
    pub resumes: u64,
    /// Number of restarts from the beginning.
    pub restarts: u64,
}

/// A snapshot that is being received.
#[derive(Clone, Debug)]
pub struct SnapshotProgress {
    /// Group of the state.
    pub group: GroupId,
    /// Member that sends it.
    pub from: NodeId,
    /// Index of the last entry in the state. 0 until it is known.
    pub last_index: LogIndex,
    /// Number of rows received.
    pub rows: u64,
    /// Number of bytes received.
    pub bytes: u64,
    /// Upper estimate of the number of rows. 0 until it is known.
    pub rows_estimated: u64,
    /// Number of times it resumed after a loss.
    pub resumes: u64,
    /// Number of restarts from the beginning.
    pub restarts: u64,
    begun_ms: u64,
}

impl SnapshotProgress {
    /// Creates the progress of a fetch that has received nothing.
    pub fn begin(group: GroupId, from: NodeId) -> SnapshotProgress {
        SnapshotProgress {
            group,
            from,
            last_index: LogIndex(0),
            rows: 0,
            bytes: 0,
            rows_estimated: 0,
            resumes: 0,
            restarts: 0,
            begun_ms: world::milliseconds(),
        }
    }

    /// Returns the progress, for operators.
    pub fn status(&self) -> SnapshotStatus {
        let elapsed_ms = world::milliseconds().saturating_sub(self.begun_ms);
        let remaining = u128::from(self.rows_estimated.saturating_sub(self.rows));
        let eta_ms = (remaining * u128::from(elapsed_ms)).checked_div(self.rows.into());
        SnapshotStatus {
            group: self.group,
            from: self.from,
            last_index: self.last_index,
            rows: self.rows,
            rows_estimated: self.rows_estimated,
            bytes: self.bytes,
            bytes_per_second: self.bytes.saturating_mul(1_000) / elapsed_ms.max(1),
            eta_ms: eta_ms.map(|remaining| u64::try_from(remaining).unwrap_or(u64::MAX)),
            resumes: self.resumes,
            restarts: self.restarts,
        }
    }
}

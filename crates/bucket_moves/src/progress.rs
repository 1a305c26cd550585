//! Progress of the moves that this node drives.

use base::BucketId;
use base::codec::{Malformed, Reader, Writer};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Maximum length of the text that names the awaited condition, in bytes.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// Phase of a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MovePhase {
    /// The move waits for its turn, or for a restart.
    #[default]
    Waiting,
    /// Every row is copied once.
    Copying,
    /// Rows that changed meanwhile are copied again.
    CatchingUp,
    /// The bucket is sealed. Its requests wait until the move is done.
    Sealed,
}

impl MovePhase {
    const ALL: [MovePhase; 4] =
        [MovePhase::Waiting, MovePhase::Copying, MovePhase::CatchingUp, MovePhase::Sealed];

    /// Returns its name at every front-end.
    pub fn word(self) -> &'static str {
        ["waiting", "copying", "catching_up", "sealed"][self as usize]
    }
}

/// Progress of a move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveProgress {
    /// Present phase.
    pub phase: MovePhase,
    /// Number of rows that were copied for the first time.
    pub rows: u64,
    /// Number of rows when copying began.
    pub rows_total: u64,
    /// Bytes of the rows copied.
    pub bytes: u64,
    /// Bytes of the rows when copying began.
    pub bytes_total: u64,
    /// Number of items copied again after a change: rows, sessions, their outcomes.
    pub again: u64,
    /// Number of items that wait to be copied again.
    pub left: u64,
    /// Reason for which the move does not go on. Empty: it goes on.
    pub waits_for: String,
}

impl MoveProgress {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(self.phase as u8);
        let numbers =
            [self.rows, self.rows_total, self.bytes, self.bytes_total, self.again, self.left];
        numbers.into_iter().for_each(|number| out.put_u64(number));
        out.put_string(self.waits_for.as_bytes());
    }

    pub(crate) fn read(reader: &mut Reader) -> Result<MoveProgress, Malformed> {
        let phase = usize::from(reader.u8("phase")?);
        let phase = *MovePhase::ALL.get(phase).ok_or(Malformed("phase"))?;
        let mut number = || reader.u64("progress");
        let (rows, rows_total, bytes, bytes_total) = (number()?, number()?, number()?, number()?);
        let (again, left) = (number()?, number()?);
        let text = reader.string(TEXT_BYTES_MAX, "awaited condition")?;
        let waits_for = String::from_utf8_lossy(text).into_owned();
        Ok(MoveProgress { phase, rows, rows_total, bytes, bytes_total, again, left, waits_for })
    }
}

/// A move, over all its attempts here.
#[derive(Default)]
struct DrivenMove {
    progress: MoveProgress,
    /// Number of restarts of the copy.
    restarts: u32,
}

/// Moves that this node drives, by the number of the bucket in the source group.
#[derive(Default)]
pub struct Transfers {
    moves: Mutex<BTreeMap<BucketId, DrivenMove>>,
    /// Point at which a test pauses moves, and the number of paused moves.
    pub gate: Mutex<(Option<MovePoint>, usize)>,
    /// Point at which a test makes the next move panic.
    pub panic_point: Mutex<Option<MovePoint>>,
}

/// Point of a move at which tests intervene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovePoint {
    /// Changes are captured, and nothing is copied.
    Begun,
    /// Everything is copied, and the bucket is not sealed.
    Copied,
    /// The seal is decided.
    Sealed,
    /// Changes before the seal are copied.
    CopiedAgain,
    /// The target takes no more parts.
    Closed,
}

impl Transfers {
    /// Returns the progress of a bucket's move. `None`: this node drives none.
    pub fn get(&self, bucket: BucketId) -> Option<MoveProgress> {
        self.moves().get(&bucket).map(|driven| driven.progress.clone())
    }

    pub(crate) fn change(&self, bucket: BucketId, change: impl FnOnce(&mut MoveProgress)) {
        change(&mut self.moves().entry(bucket).or_default().progress);
    }

    pub(crate) fn record_restart(&self, bucket: BucketId) {
        self.moves().entry(bucket).or_default().restarts += 1;
    }

    pub(crate) fn restarts(&self, bucket: BucketId) -> u32 {
        self.moves().get(&bucket).map_or(0, |driven| driven.restarts)
    }

    /// Drops the progress of moves that this node does not drive.
    pub(crate) fn retain(&self, is_driven: impl Fn(BucketId) -> bool) {
        self.moves().retain(|bucket, _| is_driven(*bucket));
    }

    fn moves(&self) -> std::sync::MutexGuard<'_, BTreeMap<BucketId, DrivenMove>> {
        self.moves.lock().expect("no one panics while holding it")
    }
}

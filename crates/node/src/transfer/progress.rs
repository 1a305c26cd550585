//! Progress of the moves that this node drives.

use base::BucketId;
use base::codec::{Malformed, Reader, Writer};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Longest text about what a move waits for.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// What a move does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MovePhase {
    /// It waits for its turn, or to be begun anew.
    #[default]
    Waiting,
    /// Every row is copied once.
    Copying,
    /// What changed meanwhile is copied again.
    CatchingUp,
    /// The bucket is sealed: its requests wait until it lives where it goes.
    Sealed,
}

impl MovePhase {
    const ALL: [MovePhase; 4] =
        [MovePhase::Waiting, MovePhase::Copying, MovePhase::CatchingUp, MovePhase::Sealed];

    /// Its word at every front-end.
    pub fn word(self) -> &'static str {
        ["waiting", "copying", "catching_up", "sealed"][self as usize]
    }
}

/// How far a move is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveProgress {
    /// What it does now.
    pub phase: MovePhase,
    /// Rows that were copied for the first time.
    pub rows: u64,
    /// How many there were when copying began.
    pub rows_total: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Likewise.
    pub bytes_total: u64,
    /// What changed and was copied again: rows, sessions, their outcomes.
    pub again: u64,
    /// What waits to be copied again.
    pub left: u64,
    /// Why it does not go on, if it does not.
    pub waits_for: String,
}

impl MoveProgress {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(self.phase as u8);
        let words =
            [self.rows, self.rows_total, self.bytes, self.bytes_total, self.again, self.left];
        words.into_iter().for_each(|word| out.put_u64(word));
        out.put_string(self.waits_for.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader) -> Result<MoveProgress, Malformed> {
        let phase = usize::from(reader.u8("phase")?);
        let phase = *MovePhase::ALL.get(phase).ok_or(Malformed("phase"))?;
        let mut word = || reader.u64("progress");
        let (rows, rows_total, bytes, bytes_total) = (word()?, word()?, word()?, word()?);
        let (again, left) = (word()?, word()?);
        let text = reader.string(TEXT_BYTES_MAX, "what it waits for")?;
        let waits_for = String::from_utf8_lossy(text).into_owned();
        Ok(MoveProgress { phase, rows, rows_total, bytes, bytes_total, again, left, waits_for })
    }
}

/// A move, over all its attempts here.
#[derive(Default)]
struct Driven {
    progress: MoveProgress,
    /// How often a copy was given up for another.
    anew: u32,
}

/// The moves that this node drives, by the number of the bucket where it lives.
#[derive(Default)]
pub(crate) struct Transfers {
    moves: Mutex<BTreeMap<BucketId, Driven>>,
    /// Where a test has moves wait, and how many times one did.
    #[cfg(test)]
    pub gate: Mutex<(Option<MovePoint>, usize)>,
    /// Where a test has the next one panic.
    #[cfg(test)]
    pub breaks: Mutex<Option<MovePoint>>,
}

/// What a move has just done: where tests let something happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MovePoint {
    Begun,
    Copied,
    Sealed,
    CopiedAgain,
    Closed,
}

impl Transfers {
    pub(crate) fn get(&self, bucket: BucketId) -> Option<MoveProgress> {
        self.moves().get(&bucket).map(|driven| driven.progress.clone())
    }

    pub(super) fn change(&self, bucket: BucketId, change: impl FnOnce(&mut MoveProgress)) {
        change(&mut self.moves().entry(bucket).or_default().progress);
    }

    pub(super) fn copied_anew(&self, bucket: BucketId) {
        self.moves().entry(bucket).or_default().anew += 1;
    }

    pub(super) fn times_anew(&self, bucket: BucketId) -> u32 {
        self.moves().get(&bucket).map_or(0, |driven| driven.anew)
    }

    /// Only these are driven here.
    pub(super) fn keep(&self, keep: impl Fn(BucketId) -> bool) {
        self.moves().retain(|bucket, _| keep(*bucket));
    }

    fn moves(&self) -> std::sync::MutexGuard<'_, BTreeMap<BucketId, Driven>> {
        self.moves.lock().expect("no one panics while holding it")
    }
}

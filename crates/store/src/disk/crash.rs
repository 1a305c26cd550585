//! States that a power cut may leave of a [`MemoryDisk`].

use super::memory::{FileContent, Honesty, MemoryDisk, NameChange, SECTOR_BYTES};
use std::collections::BTreeMap;

impl MemoryDisk {
    /// A disk as it may be found after a power cut now. Each unsynced sector has one of the
    /// contents it had since it was last durable; each unsynced change of names happened or did
    /// not. `choose(n)` decides, giving less than `n`; how often it is asked, and for which `n`,
    /// does not depend on its answers.
    pub fn crash(&self, choose: &mut dyn FnMut(usize) -> usize) -> MemoryDisk {
        let state = self.lock();
        let mut names = state.durable_names.clone();
        for change in &state.changes {
            if choose(2) == 1 {
                change.happen(&mut names);
            }
        }
        let files = state
            .files
            .iter()
            .map(|(file, content)| (*file, content.after_crash(choose)))
            .filter(|(file, _)| names.values().any(|named| named == file))
            .collect();
        MemoryDisk::of(files, names, Honesty::Honest)
    }

    /// Drops the pages that a failed sync left in memory, marked clean. Later reads return the
    /// disk's content: one of the contents since they were last durable.
    pub fn evict(&self, choose: &mut dyn FnMut(usize) -> usize) {
        for content in self.lock().files.values_mut() {
            for (sector, older) in std::mem::take(&mut content.abandoned) {
                let chosen = choose(older.len() + 1);
                put_back(&mut content.bytes, sector, older.get(chosen));
            }
        }
    }
}

impl NameChange {
    fn happen(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            NameChange::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            NameChange::Rename { from, to, file } => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            NameChange::Remove { name, file } => {
                if names.get(name) == Some(file) {
                    names.remove(name);
                }
            }
        }
    }
}

impl FileContent {
    fn after_crash(&self, choose: &mut dyn FnMut(usize) -> usize) -> FileContent {
        let mut bytes = self.bytes.clone();
        for (sector, older) in self.older.iter().chain(&self.abandoned) {
            let chosen = choose(older.len() + 1);
            put_back(&mut bytes, *sector, older.get(chosen));
        }
        if !self.length_durable && choose(2) == 0 {
            bytes.clear();
        }
        FileContent { bytes, length_durable: true, ..FileContent::default() }
    }
}

/// A sector has an older content again; none: it keeps the newest.
fn put_back(bytes: &mut [u8], sector: usize, older: Option<&Vec<u8>>) {
    if let Some(older) = older {
        let begin = sector * SECTOR_BYTES;
        bytes[begin..begin + older.len()].copy_from_slice(older);
    }
}

/// Returns all states that a power cut may leave, if there are at most `max`. Else returns the
/// state with nothing kept, the one with everything kept, and others drawn with `dice(n)`, which
/// returns a number below `n`.
pub fn crash_states(
    disk: &MemoryDisk,
    max: usize,
    dice: &mut dyn FnMut(usize) -> usize,
) -> Vec<MemoryDisk> {
    let mut ways = Vec::new();
    let nothing_kept = disk.crash(&mut |n| {
        ways.push(n);
        0
    });
    let all = ways.iter().try_fold(1_usize, |all, n| all.checked_mul(*n)).unwrap_or(usize::MAX);
    let mut states = vec![nothing_kept];
    if all <= max {
        states.extend((1..all).map(|mut number| {
            disk.crash(&mut |n| {
                let chosen = number % n;
                number /= n;
                chosen
            })
        }));
        return states;
    }
    states.push(disk.crash(&mut |n| n - 1));
    while states.len() < max {
        // Coins of different weights, so that states with little lost and with little kept are
        // tried too.
        let (weight, sides) = (dice(4), 4);
        states.push(disk.crash(&mut |n| if dice(sides) < weight { n - 1 } else { dice(n) }));
    }
    states
}

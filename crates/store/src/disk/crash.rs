//! States in which a power cut may leave a [`MemoryDisk`].

use super::memory::{FileContent, Honesty, MemoryDisk, NameChange, SECTOR_BYTES};
use std::collections::BTreeMap;

impl MemoryDisk {
    /// Returns a disk as a power cut at this moment may leave it. Each unsynced sector has one of
    /// the contents it had since it was last durable; each unsynced change of names is applied or
    /// not. `choose(n)` decides, and returns a number below `n`; the number of calls, and each `n`,
    /// does not depend on its results.
    pub fn crash(&self, choose: &mut dyn FnMut(usize) -> usize) -> MemoryDisk {
        let state = self.lock();
        let mut names = state.durable_names.clone();
        for change in &state.changes {
            if choose(2) == 1 {
                change.apply(&mut names);
            }
        }
        let files = state
            .files
            .iter()
            .map(|(file, content)| (*file, content.after_crash(choose)))
            .filter(|(file, _)| names.values().any(|named| named == file))
            .collect();
        MemoryDisk::from_parts(files, names, Honesty::Honest)
    }

    /// Drops the pages that a failed sync left in memory, marked clean. Later reads return the
    /// disk's content: one of the contents since they were last durable.
    pub fn evict(&self, choose: &mut dyn FnMut(usize) -> usize) {
        for content in self.lock().files.values_mut() {
            for (sector, older) in std::mem::take(&mut content.abandoned) {
                let chosen = choose(older.len() + 1);
                restore_sector(&mut content.bytes, sector, older.get(chosen));
            }
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
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
        for (sector, older_contents) in self.older_contents.iter().chain(&self.abandoned) {
            let chosen = choose(older_contents.len() + 1);
            restore_sector(&mut bytes, *sector, older_contents.get(chosen));
        }
        if !self.length_durable && choose(2) == 0 {
            bytes.clear();
        }
        FileContent { bytes, length_durable: true, ..FileContent::default() }
    }
}

/// Restores an older content of a sector. `None`: it keeps the newest.
fn restore_sector(bytes: &mut [u8], sector: usize, older: Option<&Vec<u8>>) {
    if let Some(older) = older {
        let begin = sector * SECTOR_BYTES;
        bytes[begin..begin + older.len()].copy_from_slice(older);
    }
}

/// Returns all states that a power cut may leave, if there are at most `max`. Else returns the
/// state with nothing kept, the one with everything kept, and others drawn with `random(n)`, which
/// returns a number below `n`.
pub fn crash_states(
    disk: &MemoryDisk,
    max: usize,
    random: &mut dyn FnMut(usize) -> usize,
) -> Vec<MemoryDisk> {
    let mut choices = Vec::new();
    let nothing_kept = disk.crash(&mut |n| {
        choices.push(n);
        0
    });
    let all = choices.iter().try_fold(1_usize, |all, n| all.checked_mul(*n)).unwrap_or(usize::MAX);
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
        // Biased coins, so that states with few and with many lost changes are tried too.
        let (weight, sides) = (random(4), 4);
        states.push(disk.crash(&mut |n| if random(sides) < weight { n - 1 } else { random(n) }));
    }
    states
}

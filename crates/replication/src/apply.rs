//! Application of decided entries: puts an entry's effects and the applied mark into the store, in
//! one batch.

use super::comparison::is_marker;
use super::entry::{EntryHead, read_entry};
use super::group::{Group, Observer};
use super::layout::{self, Mark};
use super::seals::OWN;
use base::codec::Malformed;
use base::error::corrupt;
use base::{Error, GroupId, LogIndex, Reason, Result};
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::cell::Cell;
use std::time::Duration;
use store::{RowChange, Trees};

/// Maximum number of bytes, and of entries, applied in one turn. Heartbeats are answered in
/// between.
const TURN_BYTES_MAX: usize = 4 << 20;
const TURN_VALUES_MAX: usize = 256;
/// Pause of applying while flushes lag behind writes.
const FULL_PAUSE: Duration = Duration::from_millis(2);
/// Pause of applying while the process has no descriptor left to read the log with.
const DESCRIPTORS_PAUSE: Duration = Duration::from_millis(20);

impl Group {
    /// Applies decided entries, as many as one turn should, and releases them. Returns the pause
    /// before the next, if some are left.
    pub(super) fn apply_decided(&self, stopping: bool) -> Result<Option<Duration>> {
        let Some(payloads) = self.next_decided()? else {
            return Ok(Some(DESCRIPTORS_PAUSE));
        };
        let Some(upto) = payloads.last().map(|(index, _)| *index) else { return Ok(None) };
        // The disk is behind. A stopping node must come to its end, whatever memory that takes.
        if self.shared.trees.pressure().must_wait() && !stopping {
            self.shared.maintenance.raise();
            return Ok(Some(FULL_PAUSE));
        }
        let (group, values) = (self.id.0, payloads.len());
        tracing::debug!(target: "consensus", group, upto = upto.0, values, "decided");
        let observer = self.observer.get().map(|observer| &**observer);
        let mut mark = None;
        // Before the first row is visible: the index of an answer must not be below what the reader
        // found.
        self.applied.shows(upto);
        for (index, payload) in payloads {
            let (applied, marker) = match self.is_bare() {
                true => (self.keep(index, &payload)?, None),
                false => apply_marked(self.id, &*self.shared.trees, index, &payload, observer)?,
            };
            // Between the store and `advance`: the store shows the change of a captured key, and a
            // task that waits for the entry finds its keys captured.
            self.track_value(&payload)?;
            self.applied.set_time(applied.time);
            mark = Some(applied);
            if let Some(round) = marker {
                self.marked(&round);
            }
        }
        if self.shared.trees.pressure().rotate_is_due() {
            self.shared.maintenance.raise();
        }
        self.applied.advance(upto);
        let mut guard = self.state();
        let state = &mut *guard;
        state.progress.mark = mark.unwrap_or(state.progress.mark);
        // Only now that the store shows them: an update evaluated meanwhile found them in the
        // queue.
        state.landed(upto);
        Ok((upto < state.progress.decided).then_some(Duration::ZERO))
    }

    /// Returns the entries to apply in this turn. `None`: they have left memory, and the process
    /// has no descriptor left to read them back with.
    fn next_decided(&self) -> Result<Option<Vec<(LogIndex, Bytes)>>> {
        let (mut payloads, mut bytes) = (Vec::new(), 0);
        let mut upto = self.applied.index();
        // Picked under the lock and applied without it: a decided entry is never replaced.
        let missing = {
            let state = self.state();
            loop {
                let full = bytes >= TURN_BYTES_MAX || payloads.len() >= TURN_VALUES_MAX;
                if upto >= state.progress.decided || full {
                    break None;
                }
                let Some((payload, _)) = state.entries.get(upto.next()) else {
                    break Some(state.progress.decided).filter(|_| payloads.is_empty());
                };
                upto = upto.next();
                bytes += payload.len();
                payloads.push((upto, payload));
            }
        };
        if let Some(decided) = missing {
            let behind = upto;
            // The log is sound: a node that stopped here would set its data aside for nothing.
            let Some(entries) = self.read_back(behind, decided)? else { return Ok(None) };
            for payload in entries {
                upto = upto.next();
                payloads.push((upto, payload));
            }
            // Not truncated: the log is kept from the first entry that is not applied.
            if payloads.is_empty() {
                let text = format!("the log lacks value {} of group {}", behind.next(), self.id);
                return Err(Error::new(Reason::Corrupt, text));
            }
        }
        Ok(Some(payloads))
    }
}

/// Applies one entry to the store: its effects, the configuration it begins, and the applied mark,
/// visible together.
pub fn apply_value(
    group: GroupId,
    trees: &dyn Trees,
    index: LogIndex,
    payload: &Bytes,
    observer: Option<&dyn Observer>,
) -> Result<Mark> {
    apply_marked(group, trees, index, payload, observer).map(|(mark, _)| mark)
}

/// Applies an entry's effects and its applied mark in one batch. Returns the new mark, and the
/// comparison marker of the entry. `None`: it has no marker.
fn apply_marked(
    group: GroupId,
    trees: &dyn Trees,
    index: LogIndex,
    payload: &Bytes,
    observer: Option<&dyn Observer>,
) -> Result<(Mark, Option<Bytes>)> {
    let (head, changes) = read_entry(payload).map_err(corrupt)?;
    let EntryHead { time, first_version, updates, sign } = head;
    let mark = Mark { applied: index.0, time, next_version: first_version + u64::from(updates) };
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let marked = RowChange::Put(key.into(), mark.write());
    let configured = sign.map(|configuration| {
        let mut key = Vec::new();
        layout::configuration_key(group, &mut key);
        RowChange::Put(key.into(), layout::write_configuration(index, &configuration))
    });
    let mut prefix = Vec::new();
    if observer.is_some() {
        layout::row_key(group, OWN, &[], &mut prefix);
    }
    let mut marker = None;
    let tell = |change: &RowChange| {
        if let RowChange::Put(key, round) = change
            && is_marker(key)
        {
            marker = Some(round.clone());
        }
        let Some(observer) = observer else { return };
        if let Some(key) = change.key().strip_prefix(prefix.as_slice()) {
            match change {
                RowChange::Put(_, row) => observer.changed(key, Some(row)),
                RowChange::Remove(_) => observer.changed(key, None),
            }
        }
    };
    let malformed = Cell::new(None::<Malformed>);
    let effects =
        changes.map_while(|change| change.map_err(|error| malformed.set(Some(error))).ok());
    let effects = effects.inspect(tell);
    // Half an entry never counts as applied: the next start must apply it again.
    let ends = configured.into_iter().chain([marked]).take_while(|_| malformed.get().is_none());
    let mut all = effects.chain(ends);
    trees.apply(&mut all).map_err(store_error)?;
    drop(all);
    match malformed.take() {
        Some(error) => Err(corrupt(error)),
        None => Ok((mark, marker)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending_entry::{EntryBuffers, PendingEntry};
    use store::MemoryTrees;

    #[test]
    fn a_malformed_value_is_never_marked_as_applied() {
        let group = GroupId(1);
        let mut batch = PendingEntry::new(LogIndex(1), 5, 1, 0, EntryBuffers::default());
        batch.put_raw(b"one", b"1");
        batch.put_raw(b"two", b"2");
        let whole = batch.close();
        let mut key = Vec::new();
        layout::mark_key(group, &mut key);
        let (mut malformed, mut half) = (0, 0);
        for length in 0..whole.len() {
            let trees = MemoryTrees::new(1 << 20);
            let cut = whole.slice(..length);
            // Cut between two changes it is another entry.
            let Err(error) = apply_value(group, &trees, LogIndex(1), &cut, None) else { continue };
            let mark = trees.get(&key).expect("memory");
            assert_eq!((error.reason, mark), (Reason::Corrupt, None), "{length}");
            malformed += 1;
            half += usize::from(trees.get(b"one").expect("memory").is_some());
        }
        assert!(malformed > half && half > 0, "{half} of {malformed} stop behind the first change");
        let trees = MemoryTrees::new(1 << 20);
        apply_value(group, &trees, LogIndex(1), &whole, None).expect("a whole value");
        assert!(trees.get(&key).expect("memory").is_some());
    }
}

//! Application of decided entries: puts an entry's effects and the applied mark into the store, in
//! one batch.

use super::group::{Group, Observer};
use super::seals::BOOKKEEPING_BUCKET;
use base::error::corrupt;
use base::{Error, GroupId, LogIndex, Reason, Result};
use bytes::Bytes;
use replica_state::comparison::is_marker;
use replica_state::entry::{EntryHead, read_entry};
use replica_state::feed::{AppliedFeeds, EntryStamp};
use replica_state::layout::{self, Mark};
use runtime::log_writer::store_error;
use runtime::world;
use std::cell::RefCell;
use std::time::Duration;
use store::{RowChange, Trees};

/// Maximum number of bytes, and of entries, applied in one turn. Heartbeats are answered between
/// turns.
const TURN_BYTES_MAX: usize = 4 << 20;
const TURN_ENTRIES_MAX: usize = 256;
/// Pause of applying while the process has no file descriptor left to read the log with.
const DESCRIPTORS_PAUSE: Duration = Duration::from_millis(20);

impl Group {
    /// Applies decided entries, up to the bounds of one turn, and releases them. Returns the pause
    /// before the next turn. `None`: all are applied.
    pub(super) fn apply_decided(&self, stopping: bool) -> Result<Option<Duration>> {
        let (pacer, pressure) = (&self.shared.pacer, self.shared.pacer.pressure());
        let bytes_max = pressure.bytes_per_pause(TURN_BYTES_MAX);
        let Some(payloads) = self.next_decided(bytes_max)? else {
            return Ok(Some(DESCRIPTORS_PAUSE));
        };
        let Some(last) = payloads.last().map(|(index, _)| *index) else { return Ok(None) };
        // A stopping node applies all the same: it must end, whatever memory that takes. So does
        // the directory: every request needs it, and its changes are few and small.
        let may_wait = !stopping && self.id != GroupId::DIRECTORY;
        if may_wait && let Some(pause) = pacer.wait(&self.pauses, &pressure) {
            return Ok(Some(pause));
        }
        let bytes = payloads.iter().map(|(_, payload)| payload.len()).sum();
        let (group, values) = (self.id.0, payloads.len());
        tracing::debug!(target: "consensus", group, upto = last.0, values, "decided");
        let observer = self.observer.get().map(|observer| &**observer);
        let mut mark = None;
        // Before the first row is visible: the index of an answer must not be below that of the
        // rows read.
        self.applied.raise_visible(last);
        for (index, payload) in payloads {
            let (applied, marker) = match self.is_witness_replica() {
                true => (self.append_to_witness_log(index, &payload)?, None),
                false => {
                    let trees = &*self.shared.trees;
                    apply_entry(self.id, trees, index, &payload, (observer, &self.feeds))?
                }
            };
            // Between the store and `advance`: the store shows the change of a captured key, and a
            // task that waits for the entry finds its keys captured.
            self.capture_changes(&payload)?;
            self.applied.set_time(applied.time);
            mark = Some(applied);
            if let Some(round) = marker {
                self.open_marked_snapshot(&round);
            }
        }
        pacer.applied(&self.pauses, bytes);
        self.applied.advance(last);
        self.feeds.notify_readers();
        let now_ns = world::nanoseconds();
        let mut guard = self.state();
        let state = &mut *guard;
        state.progress.mark = mark.unwrap_or(state.progress.mark);
        // Only after the store shows them: an update evaluated meanwhile found them in the queue.
        state.release_applied(last);
        state.times.on_applied(last, now_ns / 1_000_000);
        let latencies = state.latencies.take_applied(last, now_ns);
        // Clients write to the directory too rarely to be compared.
        for (latency_us, writes) in latencies.filter(|_| self.id != GroupId::DIRECTORY) {
            self.shared.build_pacer.observe(self.id.0, latency_us, writes);
        }
        Ok((last < state.progress.decided).then_some(Duration::ZERO))
    }

    /// Returns the entries to apply in this turn: the first ones with about this many bytes.
    /// `None`: they have left memory, and the process has no descriptor left to read them back
    /// with.
    fn next_decided(&self, bytes_max: usize) -> Result<Option<Vec<(LogIndex, Bytes)>>> {
        let (mut payloads, mut bytes) = (Vec::new(), 0);
        let mut last = self.applied.index();
        // Collected under the lock and applied without it: a decided entry is never replaced.
        let missing = {
            let state = self.state();
            loop {
                let full = bytes >= bytes_max || payloads.len() >= TURN_ENTRIES_MAX;
                if last >= state.progress.decided || full {
                    break None;
                }
                let Some((payload, _)) = state.entries.get(last.next()) else {
                    break Some(state.progress.decided).filter(|_| payloads.is_empty());
                };
                last = last.next();
                bytes += payload.len();
                payloads.push((last, payload));
            }
        };
        if let Some(decided) = missing {
            let after = last;
            // The log is sound: a node that failed here would set its data aside for nothing.
            let Some(entries) = self.read_back(after, decided)? else { return Ok(None) };
            for payload in entries {
                last = last.next();
                payloads.push((last, payload));
            }
            // The log is never truncated behind the first entry that is not applied.
            if payloads.is_empty() {
                let text = format!("the log lacks entry {} of group {}", after.next(), self.id);
                return Err(Error::new(Reason::Corrupt, text));
            }
        }
        Ok(Some(payloads))
    }
}

/// Applies one entry to the store: its effects, the feed entries that they mean, the configuration
/// it begins, and the applied mark, visible together.
pub fn apply_entry_to(
    group: GroupId,
    trees: &dyn Trees,
    index: LogIndex,
    payload: &Bytes,
    observers: EntryObservers<'_>,
) -> Result<Mark> {
    apply_entry(group, trees, index, payload, observers).map(|(mark, _)| mark)
}

/// Observer of rows of bucket 0, if there is one, and the feeds to which changes are added: those
/// of the rows in `trees`.
pub type EntryObservers<'a> = (Option<&'a dyn Observer>, &'a AppliedFeeds);

/// Applies an entry's effects and its applied mark in one batch. Returns the new mark, and the
/// comparison marker of the entry. `None`: it has no marker.
fn apply_entry(
    group: GroupId,
    trees: &dyn Trees,
    index: LogIndex,
    payload: &Bytes,
    (observer, feeds): EntryObservers<'_>,
) -> Result<(Mark, Option<Bytes>)> {
    let (head, changes) = read_entry(payload).map_err(corrupt)?;
    let EntryHead { time, first_version, updates, sign } = head;
    let mark = Mark { applied: index.0, time, next_version: first_version + u64::from(updates) };
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let mark_change = RowChange::Put(key.into(), mark.write());
    let configuration_change = sign.map(|configuration| {
        let mut key = Vec::new();
        layout::configuration_key(group, &mut key);
        RowChange::Put(key.into(), layout::write_configuration(index, &configuration))
    });
    let mut prefix = Vec::new();
    if observer.is_some() {
        layout::row_key(group, BOOKKEEPING_BUCKET, &[], &mut prefix);
    }
    let derivation = RefCell::new(Some(feeds.derive(group, index)));
    let mut marker = None;
    let observe = |change: &RowChange| {
        if let RowChange::Put(key, round) = change
            && is_marker(key)
        {
            marker = Some(round.clone());
        }
        if let Some(derivation) = derivation.borrow_mut().as_mut() {
            derivation.observe(change);
        }
        let Some(observer) = observer else { return };
        if let Some(key) = change.key().strip_prefix(prefix.as_slice()) {
            match change {
                RowChange::Put(_, row) => observer.changed(key, Some(row)),
                RowChange::Remove(_) => observer.changed(key, None),
            }
        }
    };
    let failure = RefCell::new(None);
    let effects = changes.map_while(|change| {
        change.map_err(|error| *failure.borrow_mut() = Some(corrupt(error))).ok()
    });
    let effects = effects.inspect(observe);
    // Behind the last effect: for each key, that one counts.
    let feed_changes = std::iter::once_with(|| {
        let derivation = derivation.take().filter(|_| failure.borrow().is_none());
        let stamp = EntryStamp { time, next_version: mark.next_version };
        derivation.map_or(Ok(Vec::new()), |derivation| derivation.finish(stamp))
    });
    let feed_changes = feed_changes
        .map_while(|changes| changes.map_err(|error| *failure.borrow_mut() = Some(error)).ok());
    // A partial entry never counts as applied: the next start must apply it again.
    let last_changes = feed_changes
        .flatten()
        .chain(configuration_change)
        .chain([mark_change])
        .take_while(|_| failure.borrow().is_none());
    let mut all = effects.chain(last_changes);
    trees.apply(&mut all).map_err(store_error)?;
    drop(all);
    match failure.into_inner() {
        Some(error) => Err(error),
        None => Ok((mark, marker)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replica_state::pending_entry::{EntryBuffers, PendingEntry};
    use store::MemoryTrees;

    #[test]
    fn malformed_entry_is_never_marked_as_applied() {
        let group = GroupId(1);
        let mut batch = PendingEntry::new(LogIndex(1), 5, 1, 0, EntryBuffers::default());
        batch.put_raw(b"one", b"1");
        batch.put_raw(b"two", b"2");
        let whole = batch.close();
        let mut key = Vec::new();
        layout::mark_key(group, &mut key);
        let (mut malformed, mut half) = (0, 0);
        let feeds = AppliedFeeds::default();
        for length in 0..whole.len() {
            let trees = MemoryTrees::new(1 << 20);
            let cut = whole.slice(..length);
            // Cut between two changes it is another entry.
            let Err(error) = apply_entry_to(group, &trees, LogIndex(1), &cut, (None, &feeds))
            else {
                continue;
            };
            let mark = trees.get(&key).expect("memory");
            assert_eq!((error.reason, mark), (Reason::Corrupt, None), "{length}");
            malformed += 1;
            half += usize::from(trees.get(b"one").expect("memory").is_some());
        }
        assert!(malformed > half && half > 0, "{half} of {malformed} stop behind the first change");
        let trees = MemoryTrees::new(1 << 20);
        apply_entry_to(group, &trees, LogIndex(1), &whole, (None, &feeds)).expect("a whole value");
        assert!(trees.get(&key).expect("memory").is_some());
    }

    /// An entry without a version for the next one: applied, no later entry could be.
    #[test]
    fn entry_with_the_last_version_is_never_marked_as_applied() {
        let (group, index) = (GroupId(1), LogIndex(1));
        let mut key = Vec::new();
        layout::mark_key(group, &mut key);
        for (first_version, is_sound) in [(u64::MAX - 1, true), (u64::MAX, false)] {
            let mut batch = PendingEntry::new(index, 5, first_version, 0, EntryBuffers::default());
            batch.put_raw(b"one", b"1");
            batch.updates = 1;
            let (trees, feeds) = (MemoryTrees::new(1 << 20), AppliedFeeds::default());
            let applied = apply_entry_to(group, &trees, index, &batch.close(), (None, &feeds));
            assert_eq!(applied.is_ok(), is_sound);
            assert_eq!(trees.get(&key).expect("memory").is_some(), is_sound);
        }
    }
}

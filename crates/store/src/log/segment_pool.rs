//! Pool of spare files, prepared before a segment is needed: of the right size, all bytes written,
//! synced. Also recycles or removes old segments.
//!
//! With [`SpareWorker::Thread`] a thread of the log's own does both, so that appends rarely wait;
//! with [`SpareWorker::Inline`] the caller does, which a simulation needs.

use super::segment::{LogNames, SPARE, Segment, UNFINISHED, spare_name};
use super::writer::is_out_of_space;
use crate::StoreError;
use crate::disk::{Access, Disk, DiskFile};
use crate::failpoint::{Point, reach};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Thread that prepares the next segment and clears old ones away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareWorker {
    /// A thread of the log's own, which ends with the log.
    Thread,
    /// The caller that appends or collapses.
    Inline,
}

/// Maximum number of spares; further old segments are removed.
const SPARES_MAX: usize = 2;
/// Zeros are written and synced in steps of this size, so that other syncs do not wait for all of
/// them.
const STEP_BYTES: u64 = 1024 * 1024;

/// A file with reserved space and arbitrary content.
pub(super) struct SpareSegment {
    pub name: String,
    pub file: Arc<dyn DiskFile>,
    pub length: u64,
}

pub(super) struct SegmentPool {
    shared: Arc<PoolState>,
    thread: Option<JoinHandle<()>>,
}

struct PoolState {
    disk: Arc<dyn Disk>,
    /// Length of the old segments that are recycled.
    recycled_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
    failed: AtomicBool,
}

#[derive(Default)]
struct State {
    ready: Vec<SpareSegment>,
    retiring: VecDeque<Segment>,
    /// Length of the spare that the writer requested; 0: none.
    requested_bytes: u64,
    /// Length of the spare that is being created; 0: none.
    creating_bytes: u64,
    /// True if the last preparation failed. The next request clears it.
    ahead_failed: bool,
    next: u64,
    failure: Option<StoreError>,
}

impl SegmentPool {
    /// Adopts the files of an earlier run: keeps spares of the right length, and removes the
    /// others.
    pub fn start(
        disk: Arc<dyn Disk>,
        names: &LogNames,
        recycled_bytes: u64,
        spare_worker: SpareWorker,
    ) -> Result<SegmentPool, StoreError> {
        let state = State::default();
        let shared = Arc::new(PoolState {
            disk,
            recycled_bytes,
            state: Mutex::new(state),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        });
        shared.adopt(names)?;
        let thread = match spare_worker {
            SpareWorker::Inline => None,
            SpareWorker::Thread => {
                // Without a beat: the log writer, which has one, waits for it.
                let worker = shared.clone();
                let spawned = std::thread::Builder::new()
                    .name("log-spares".into())
                    .spawn(move || worker.run());
                Some(spawned.map_err(|error| StoreError::io("can't start a thread", error))?)
            }
        };
        Ok(SegmentPool { shared, thread })
    }

    /// Requests a spare of this length, which is created unless one is ready.
    pub fn request(&self, length: u64) {
        let mut state = self.shared.lock();
        state.requested_bytes = length;
        state.ahead_failed = false;
        self.shared.changed.notify_all();
    }

    /// Returns a spare of at least `at_least` bytes; creates one of `length` bytes if none is
    /// ready. After an error nothing has changed.
    pub fn acquire(&self, at_least: u64, length: u64) -> Result<SpareSegment, StoreError> {
        let mut state = self.shared.lock();
        loop {
            if let Some(at) = state.ready.iter().position(|spare| spare.length >= at_least) {
                return Ok(state.ready.swap_remove(at));
            }
            // Wait for a spare that is being created: a second one, begun now, would be ready
            // later.
            if state.creating_bytes < at_least {
                break;
            }
            state = self.shared.changed.wait(state).expect(NO_PANIC);
        }
        let number = state.number();
        drop(state);
        self.shared.create_spare(number, length.max(at_least))
    }

    /// Returns an unused spare to the pool.
    pub fn return_spare(&self, spare: SpareSegment) {
        self.shared.lock().ready.push(spare);
    }

    /// Recycles or removes an unneeded segment, in the order of these calls.
    pub fn retire(&self, segment: Segment) {
        let mut state = self.shared.lock();
        state.retiring.push_back(segment);
        if self.thread.is_some() {
            self.shared.changed.notify_all();
        } else {
            drop(self.shared.clear_oldest(state));
        }
    }

    /// Returns the bytes of all ready spares.
    pub fn ready_bytes(&self) -> u64 {
        self.shared.lock().ready.iter().map(|spare| spare.length).sum()
    }

    /// Returns the failure of a background removal, once. `None`: there was none.
    pub fn failure(&self) -> Option<StoreError> {
        if !self.shared.failed.load(Ordering::Acquire) {
            return None;
        }
        self.shared.lock().failure.take()
    }
}

impl Drop for SegmentPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        // Under the lock, so that the thread can't miss the notification between its check and its
        // wait.
        drop(self.shared.lock());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic there, and nothing durable depends on that
            // thread.
            let _ = thread.join();
        }
    }
}

const NO_PANIC: &str = "no holder of this lock panics";

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl PoolState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }

    fn adopt(&self, names: &LogNames) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.next = names.spares.iter().chain(&names.unfinished).copied().max().unwrap_or(0);
        for number in &names.unfinished {
            self.remove(&spare_name(*number, UNFINISHED))?;
        }
        for number in &names.spares {
            let name = spare_name(*number, SPARE);
            let file = self.disk.open(&name, Access::Write).map_err(failed("open", &name))?;
            let length = file.size().map_err(failed("ask the size of", &name))?;
            if length == self.recycled_bytes && state.ready.len() < SPARES_MAX {
                state.ready.push(SpareSegment { name, file, length });
            } else {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if !state.retiring.is_empty() {
                state = self.clear_oldest(state);
            } else if self.stop.load(Ordering::Acquire) {
                return;
            } else if state.requested_bytes > 0 && !state.ahead_failed && state.ready.is_empty() {
                state = self.create_ahead(state);
            } else {
                state = self.changed.wait(state).expect(NO_PANIC);
            }
        }
    }

    fn create_ahead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.creating_bytes = state.requested_bytes;
        let (number, length) = (state.number(), state.requested_bytes);
        drop(state);
        let created = self.create_spare(number, length);
        let mut state = self.lock();
        state.creating_bytes = 0;
        match created {
            Ok(spare) => state.ready.push(spare),
            Err(error) => {
                state.ahead_failed = true;
                if !self.stop.load(Ordering::Acquire) {
                    tracing::warn!("the log's next segment can't be prepared yet: {error}");
                }
            }
        }
        self.changed.notify_all();
        state
    }

    /// Creates a spare: a file of which every byte is written once and synced.
    fn create_spare(&self, number: u64, length: u64) -> Result<SpareSegment, StoreError> {
        let unfinished = spare_name(number, UNFINISHED);
        let file = self.disk.create(&unfinished, length).map_err(failed("make", &unfinished))?;
        let name = spare_name(number, SPARE);
        let prepared = self.fill(&*file, length).and_then(|()| {
            reach(Point::SpareFilled);
            self.disk.rename(&unfinished, &name)
        });
        match prepared {
            Ok(()) => Ok(SpareSegment { name, file, length }),
            Err(error) => {
                // Frees the space; the first error is the one that is returned.
                let _ = self.disk.remove(&unfinished);
                Err(failed("prepare", &unfinished)(error))
            }
        }
    }

    fn fill(&self, file: &dyn DiskFile, length: u64) -> io::Result<()> {
        let zeros = vec![0; length.min(STEP_BYTES) as usize];
        let mut offset = 0;
        while offset < length {
            if self.stop.load(Ordering::Acquire) {
                return Err(io::Error::other("the log is closing"));
            }
            let step = (length - offset).min(STEP_BYTES);
            file.write_at(&zeros[..step as usize], offset)?;
            file.sync_data()?;
            offset += step;
        }
        Ok(())
    }

    /// Renames or removes the oldest retired segment, durably; only then may its file be recycled.
    fn clear_oldest<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(segment) = state.retiring.pop_front() else { return state };
        if self.failed.load(Ordering::Acquire) {
            return state;
        }
        let length = segment.header.length;
        let is_recycled = length == self.recycled_bytes && state.ready.len() < SPARES_MAX;
        let number = state.number();
        drop(state);
        let old = segment.header.name();
        let name = spare_name(number, SPARE);
        reach(Point::CollapseBefore);
        let cleared = self.rename_or_remove(&old, is_recycled.then_some(&name));
        let mut state = self.lock();
        match cleared {
            Ok(true) => state.ready.push(SpareSegment { name, file: segment.file, length }),
            Ok(false) => {}
            Err(source) => {
                // Also for lack of space: it is unknown whether the name is removed.
                let description = format!("can't clear away {old}");
                state.failure = Some(StoreError::Io { description, source });
                self.failed.store(true, Ordering::Release);
            }
        }
        self.changed.notify_all();
        state
    }

    /// Renames the file if `new` is given, else removes it. Returns true if it was renamed. If the
    /// disk has no space for the new name, the file is removed.
    fn rename_or_remove(&self, old: &str, new: Option<&String>) -> io::Result<bool> {
        let is_renamed = match new.map(|new| self.disk.rename(old, new)) {
            Some(Err(error)) if !is_out_of_space(&error) => return Err(error),
            Some(Ok(())) => true,
            Some(Err(_)) | None => false,
        };
        if is_renamed {
            reach(Point::CollapseRenamed);
        } else {
            self.disk.remove(old)?;
            reach(Point::CollapseRemoved);
        }
        self.disk.sync_directory()?;
        Ok(is_renamed)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.disk.remove(name).map_err(failed("remove", name))
    }
}

fn failed(verb: &'static str, name: &str) -> impl Fn(io::Error) -> StoreError + use<> {
    let description = format!("can't {verb} {name}");
    move |error| StoreError::io(description.clone(), error)
}

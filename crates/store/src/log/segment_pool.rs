//! Files made ready before a segment is needed: right size, all bytes written, synced. And what
//! becomes of old segments.
//!
//! With [`Ahead::Thread`] both happen on a small thread of the log's own, so that appending rarely
//! waits for either; with [`Ahead::Inline`] the caller does them, which a simulation needs.

use super::segment::{LogNames, SPARE, Segment, UNREADY, spare_name};
use super::writer::no_space;
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
pub enum Ahead {
    /// A thread of the log's own, which ends with the log.
    Thread,
    /// The caller that appends or collapses.
    Inline,
}

/// Most spare segments kept for later; more old segments are removed.
const SPARES_MAX: usize = 2;
/// Zeros are written and synced in steps, so that other syncs do not wait behind all of them.
const STEP_BYTES: u64 = 1024 * 1024;

/// A file with reserved space, whose content means nothing.
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
    /// Old segments of this length are used again.
    keep_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
    failed: AtomicBool,
}

#[derive(Default)]
struct State {
    ready: Vec<SpareSegment>,
    retiring: VecDeque<Segment>,
    /// Length of a file that should be ready; 0: none.
    wanted: u64,
    /// Length of the file being made right now; 0: none.
    making: u64,
    /// The last try to make one ahead failed; not tried again before it is needed.
    refused: bool,
    next: u64,
    failure: Option<StoreError>,
}

impl SegmentPool {
    /// Takes over the files of an earlier run: keeps spares of the right length, and removes the
    /// others.
    pub fn start(
        disk: Arc<dyn Disk>,
        names: &LogNames,
        keep_bytes: u64,
        ahead: Ahead,
    ) -> Result<SegmentPool, StoreError> {
        let state = State::default();
        let shared = Arc::new(PoolState {
            disk,
            keep_bytes,
            state: Mutex::new(state),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        });
        shared.adopt(names)?;
        let thread = match ahead {
            Ahead::Inline => None,
            Ahead::Thread => {
                let worker = shared.clone();
                let spawned = std::thread::Builder::new()
                    .name("log-spares".into())
                    .spawn(move || worker.run());
                Some(spawned.map_err(|error| StoreError::io("can't start a thread", error))?)
            }
        };
        Ok(SegmentPool { shared, thread })
    }

    /// Requests a file of this length, if none is ready or being made.
    pub fn want(&self, length: u64) {
        let mut state = self.shared.lock();
        state.wanted = length;
        state.refused = false;
        self.shared.changed.notify_all();
    }

    /// Takes a file of at least `at_least` bytes; makes one of exactly `length` if none is ready.
    /// After an error nothing has changed.
    pub fn take(&self, at_least: u64, length: u64) -> Result<SpareSegment, StoreError> {
        let mut state = self.shared.lock();
        loop {
            if let Some(at) = state.ready.iter().position(|spare| spare.length >= at_least) {
                return Ok(state.ready.swap_remove(at));
            }
            // One that is being made is waited for: a second, begun now, would be ready later.
            if state.making < at_least {
                break;
            }
            state = self.shared.changed.wait(state).expect(NO_PANIC);
        }
        let number = state.number();
        drop(state);
        self.shared.make(number, length.max(at_least))
    }

    /// Returns a file that was taken and not used.
    pub fn give_back(&self, spare: SpareSegment) {
        self.shared.lock().ready.push(spare);
    }

    /// Recycles or removes an unneeded segment, after those given before.
    pub fn retire(&self, segment: Segment) {
        let mut state = self.shared.lock();
        state.retiring.push_back(segment);
        if self.thread.is_some() {
            self.shared.changed.notify_all();
        } else {
            drop(self.shared.clear_one(state));
        }
    }

    /// Bytes in files that are ready.
    pub fn ready_bytes(&self) -> u64 {
        self.shared.lock().ready.iter().map(|spare| spare.length).sum()
    }

    /// Takes the failure of a background removal. `None`: there was none, or it was taken already.
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
        // Under the lock, so that the thread can't miss it between looking and waiting.
        drop(self.shared.lock());
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its hook, and nothing durable depends on that
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
        state.next = names.pool.iter().chain(&names.unready).copied().max().unwrap_or(0);
        for number in &names.unready {
            self.remove(&spare_name(*number, UNREADY))?;
        }
        for number in &names.pool {
            let name = spare_name(*number, SPARE);
            let file = self.disk.open(&name, Access::Write).map_err(failed("open", &name))?;
            let length = file.size().map_err(failed("ask the size of", &name))?;
            if length == self.keep_bytes && state.ready.len() < SPARES_MAX {
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
                state = self.clear_one(state);
            } else if self.stop.load(Ordering::Acquire) {
                return;
            } else if state.wanted > 0 && !state.refused && state.ready.is_empty() {
                state = self.make_ahead(state);
            } else {
                state = self.changed.wait(state).expect(NO_PANIC);
            }
        }
    }

    fn make_ahead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.making = state.wanted;
        let (number, length) = (state.number(), state.wanted);
        drop(state);
        let made = self.make(number, length);
        let mut state = self.lock();
        state.making = 0;
        match made {
            Ok(spare) => state.ready.push(spare),
            Err(error) => {
                state.refused = true;
                if !self.stop.load(Ordering::Acquire) {
                    tracing::warn!("the log's next segment can't be prepared yet: {error}");
                }
            }
        }
        self.changed.notify_all();
        state
    }

    /// Makes a file, writes every byte of it once, and syncs it.
    fn make(&self, number: u64, length: u64) -> Result<SpareSegment, StoreError> {
        let unready = spare_name(number, UNREADY);
        let file = self.disk.create(&unready, length).map_err(failed("make", &unready))?;
        let name = spare_name(number, SPARE);
        let made = self.fill(&*file, length).and_then(|()| {
            reach(Point::SpareFilled);
            self.disk.rename(&unready, &name)
        });
        match made {
            Ok(()) => Ok(SpareSegment { name, file, length }),
            Err(error) => {
                // The space goes back to whoever filled the disk; the first error is the one that
                // counts.
                let _ = self.disk.remove(&unready);
                Err(failed("prepare", &unready)(error))
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

    /// Takes the oldest retired segment's name away, durably; only then may its file be used again.
    fn clear_one<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(segment) = state.retiring.pop_front() else { return state };
        if self.failed.load(Ordering::Acquire) {
            return state;
        }
        let length = segment.header.length;
        let keep = length == self.keep_bytes && state.ready.len() < SPARES_MAX;
        let number = state.number();
        drop(state);
        let old = segment.header.name();
        let name = spare_name(number, SPARE);
        reach(Point::CollapseBefore);
        let cleared = self.unname(&old, keep.then_some(&name));
        let mut state = self.lock();
        match cleared {
            Ok(true) => state.ready.push(SpareSegment { name, file: segment.file, length }),
            Ok(false) => {}
            Err(source) => {
                // Also for lack of space: whether the name is gone is not known.
                let what = format!("can't clear away {old}");
                state.failure = Some(StoreError::Io { what, source });
                self.failed.store(true, Ordering::Release);
            }
        }
        self.changed.notify_all();
        state
    }

    /// Renames a file that is to be kept, else removes it; true: it was renamed. A disk without
    /// space for the longer list of names gets the space back instead.
    fn unname(&self, old: &str, new: Option<&String>) -> io::Result<bool> {
        let kept = match new.map(|new| self.disk.rename(old, new)) {
            Some(Err(error)) if !no_space(&error) => return Err(error),
            Some(Ok(())) => true,
            Some(Err(_)) | None => false,
        };
        if kept {
            reach(Point::CollapseRenamed);
        } else {
            self.disk.remove(old)?;
            reach(Point::CollapseRemoved);
        }
        self.disk.sync_directory()?;
        Ok(kept)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.disk.remove(name).map_err(failed("remove", name))
    }
}

fn failed(verb: &'static str, name: &str) -> impl Fn(io::Error) -> StoreError + use<> {
    let what = format!("can't {verb} {name}");
    move |error| StoreError::io(what.clone(), error)
}

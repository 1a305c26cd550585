//! A disk in memory that records what a power cut may lose, and can be made to fail.
//!
//! Per sector of 512 bytes it keeps every content since the last sync: the power cut may leave any
//! of them. Names are as durable as the last `sync_directory`. A sync that fails leaves its sectors
//! readable but not durable, and later syncs do not cover them unless they are written again: as on
//! Linux.

use super::{Access, Disk, DiskFile};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes that a device writes atomically.
pub(super) const SECTOR_BYTES: usize = 512;

/// Kind of call that a fault may hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCall {
    /// `create`.
    Create,
    /// `open`.
    Open,
    /// `write_at`.
    Write,
    /// `read_at`.
    Read,
    /// `sync_data`.
    Sync,
    /// `rename`.
    Rename,
    /// `remove`.
    Remove,
    /// `sync_directory`.
    SyncDirectory,
    /// `list`.
    List,
}

/// Kind of sync: real or pretended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honesty {
    /// A sync makes data durable.
    Honest,
    /// A sync reports success and does nothing: the positive control of every durability test.
    Lying,
}

/// A disk in memory. Clones share the same content.
#[derive(Clone)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

pub(super) struct State {
    honesty: Honesty,
    pub files: BTreeMap<u64, FileContent>,
    pub names: BTreeMap<String, u64>,
    pub durable_names: BTreeMap<String, u64>,
    pub changes: Vec<NameChange>,
    calls: u64,
    faults: Vec<DiskFault>,
    /// Failed calls since `take_failures` was last called.
    failures: Vec<(DiskCall, io::ErrorKind)>,
    power_off_after: Option<u64>,
}

/// A change of names that is not durable yet.
#[derive(Clone)]
pub(super) enum NameChange {
    Create { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Remove { name: String, file: u64 },
}

/// A file's bytes as a reader sees them, and the older contents of its sectors since they were last
/// durable.
#[derive(Clone, Default)]
pub(super) struct FileContent {
    pub bytes: Vec<u8>,
    pub length_durable: bool,
    pub older_contents: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Sectors whose sync failed. Later syncs skip them.
    pub abandoned: BTreeMap<usize, Vec<Vec<u8>>>,
}

struct DiskFault {
    operation: DiskCall,
    countdown: u64,
    /// Error of the call. `None`: the call reports success and does nothing.
    error: Option<io::ErrorKind>,
}

impl MemoryDisk {
    /// Creates an empty disk.
    pub fn new(honesty: Honesty) -> MemoryDisk {
        MemoryDisk::from_parts(BTreeMap::new(), BTreeMap::new(), honesty)
    }

    pub(super) fn from_parts(
        files: BTreeMap<u64, FileContent>,
        names: BTreeMap<String, u64>,
        honesty: Honesty,
    ) -> MemoryDisk {
        let state = State {
            honesty,
            files,
            durable_names: names.clone(),
            names,
            changes: Vec::new(),
            calls: 0,
            faults: Vec::new(),
            failures: Vec::new(),
            power_off_after: None,
        };
        MemoryDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes the `nth` (from 1) such call from now on fail once with this error. A failed write
    /// leaves the first half of its sectors.
    pub fn fail_nth(&self, operation: DiskCall, nth: u64, error: io::ErrorKind) {
        self.lock().faults.push(DiskFault { operation, countdown: nth, error: Some(error) });
    }

    /// Makes the `nth` (from 1) such sync from now on report success and do nothing, as a program
    /// would that forgot it.
    pub fn skip_nth(&self, sync: DiskCall, nth: u64) {
        assert!(matches!(sync, DiskCall::Sync | DiskCall::SyncDirectory), "only syncs hide");
        self.lock().faults.push(DiskFault { operation: sync, countdown: nth, error: None });
    }

    /// Returns true if every requested fault has happened.
    pub fn has_failed(&self) -> bool {
        self.lock().faults.is_empty()
    }

    /// Takes the calls that failed since the last call of this function, with the kinds of their
    /// errors.
    pub fn take_failures(&self) -> Vec<(DiskCall, io::ErrorKind)> {
        std::mem::take(&mut self.lock().failures)
    }

    /// Cancels the requested faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// Cuts the power after this many further calls: every later call fails.
    pub fn power_off_after(&self, calls: u64) {
        let mut state = self.lock();
        state.power_off_after = Some(state.calls + calls);
    }

    /// Number of calls made.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Changes one byte of a file, as bit rot does. `change` gets the byte and returns the new one.
    pub fn damage(&self, name: &str, offset: u64, change: impl Fn(u8) -> u8) {
        let mut state = self.lock();
        let file = state.names[name];
        let content = state.files.get_mut(&file).expect("names point to files");
        let at = usize::try_from(offset).expect("files in memory are small");
        content.bytes[at] = change(content.bytes[at]);
    }

    /// A file's bytes as a reader sees them.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        state.names.get(name).map(|file| state.files[file].bytes.clone())
    }

    /// A disk with the same content, all of it durable.
    pub fn copy(&self, honesty: Honesty) -> MemoryDisk {
        let state = self.lock();
        let durable_copy = |content: &FileContent| FileContent {
            bytes: content.bytes.clone(),
            length_durable: true,
            ..FileContent::default()
        };
        let files = state.files.iter().map(|(id, content)| (*id, durable_copy(content))).collect();
        MemoryDisk::from_parts(files, state.names.clone(), honesty)
    }

    /// Creates a durable file with these bytes, as the initial state of a test.
    pub fn create_durable(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.lock();
        let file = state.next_file();
        state
            .files
            .insert(file, FileContent { bytes, length_durable: true, ..FileContent::default() });
        state.names.insert(name.into(), file);
        state.durable_names.insert(name.into(), file);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl State {
    /// Counts the call and applies a fault. An error: the call fails. Otherwise: whether a sync of
    /// it is real.
    fn begin_call(&mut self, operation: DiskCall) -> io::Result<Honesty> {
        self.calls += 1;
        if self.power_off_after.is_some_and(|last| self.calls > last) {
            return Err(io::Error::other("no power"));
        }
        let mut failure = None;
        self.faults.retain_mut(|fault| {
            if fault.operation != operation {
                return true;
            }
            fault.countdown -= 1;
            if fault.countdown == 0 {
                failure = Some(fault.error);
            }
            fault.countdown > 0
        });
        match failure {
            None => Ok(self.honesty),
            Some(None) => Ok(Honesty::Lying),
            Some(Some(kind)) => {
                self.failures.push((operation, kind));
                Err(kind.into())
            }
        }
    }

    fn file_named(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn next_file(&self) -> u64 {
        self.files.last_key_value().map_or(1, |(last, _)| last + 1)
    }
}

impl Disk for MemoryDisk {
    fn create(&self, name: &str, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.begin_call(DiskCall::Create)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.next_file();
        let length = usize::try_from(length).expect("files in memory are small");
        state.files.insert(file, FileContent { bytes: vec![0; length], ..FileContent::default() });
        state.names.insert(name.into(), file);
        state.changes.push(NameChange::Create { name: name.into(), file });
        Ok(Arc::new(MemoryFile { disk: self.clone(), file }))
    }

    fn open(&self, name: &str, _access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.begin_call(DiskCall::Open)?;
        let file = state.file_named(name)?;
        Ok(Arc::new(MemoryFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.begin_call(DiskCall::Rename)?;
        let file = state.file_named(from)?;
        state.names.remove(from);
        state.names.insert(to.into(), file);
        state.changes.push(NameChange::Rename { from: from.into(), to: to.into(), file });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.begin_call(DiskCall::Remove)?;
        let file = state.file_named(name)?;
        state.names.remove(name);
        state.changes.push(NameChange::Remove { name: name.into(), file });
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.begin_call(DiskCall::SyncDirectory)? == Honesty::Honest {
            state.durable_names = state.names.clone();
            state.changes.clear();
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.begin_call(DiskCall::List)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn free_space(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    file: u64,
}

impl MemoryFile {
    fn with<T>(
        &self,
        operation: DiskCall,
        action: impl FnOnce(&mut FileContent, Honesty, io::Result<()>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.lock();
        let has_power = state.power_off_after.is_none_or(|last| state.calls < last);
        let outcome = state.begin_call(operation);
        if !has_power {
            return Err(outcome.expect_err("without power every call fails"));
        }
        let honesty = *outcome.as_ref().unwrap_or(&state.honesty);
        let content = state.files.get_mut(&self.file).expect("open files are kept");
        action(content, honesty, outcome.map(drop))
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(DiskCall::Write, |content, _, outcome| {
            let begin = usize::try_from(offset).expect("files in memory are small");
            let mut end = begin + bytes.len();
            assert!(end <= content.bytes.len(), "the log writes within its files");
            if outcome.is_err() {
                end = begin.max((begin + bytes.len() / 2) / SECTOR_BYTES * SECTOR_BYTES);
            }
            for sector in begin / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
                content.save_sector(sector);
            }
            content.bytes[begin..end].copy_from_slice(&bytes[..end - begin]);
            outcome
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(DiskCall::Read, |content, _, outcome| {
            outcome?;
            let begin =
                usize::try_from(offset).map_or(usize::MAX, |at| at.min(content.bytes.len()));
            let available = &content.bytes[begin..];
            let count = available.len().min(buffer.len());
            buffer[..count].copy_from_slice(&available[..count]);
            Ok(count)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(DiskCall::Sync, |content, honesty, outcome| {
            if honesty == Honesty::Honest {
                let dirty = std::mem::take(&mut content.older_contents);
                match &outcome {
                    Ok(()) => content.length_durable = true,
                    Err(_) => content.abandoned.extend(dirty),
                }
            }
            outcome
        })
    }

    fn size(&self) -> io::Result<u64> {
        self.with(DiskCall::Read, |content, _, outcome| {
            outcome.map(|()| content.bytes.len() as u64)
        })
    }
}

impl FileContent {
    /// Saves the content of a sector before it is overwritten.
    fn save_sector(&mut self, sector: usize) {
        let begin = sector * SECTOR_BYTES;
        let end = (begin + SECTOR_BYTES).min(self.bytes.len());
        let older_contents = self.older_contents.entry(sector).or_default();
        if let Some(abandoned) = self.abandoned.remove(&sector) {
            older_contents.extend(abandoned);
        }
        older_contents.push(self.bytes[begin..end].to_vec());
    }
}

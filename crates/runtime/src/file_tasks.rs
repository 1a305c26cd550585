//! Tasks that write files of the data directory, beside the log writer and the stop itself.

use base::Result;
use base::error::shutting_down;
use std::sync::{Arc, Mutex, MutexGuard};

/// Tracker of the tasks that write files: merges, reclaims, checkpoints, snapshots that are
/// received. A stop waits for all of them and lets none begin: the files may belong to the next
/// process by the time it would be done.
#[derive(Default)]
pub struct FileTasks(Mutex<Running>);

#[derive(Default)]
struct Running {
    tasks: usize,
    closed: bool,
}

/// Guard of a running task, until it is dropped.
pub struct FileTask(Arc<FileTasks>);

impl FileTasks {
    /// Begins a task. An error: the node is stopping.
    pub fn begin(self: &Arc<FileTasks>) -> Result<FileTask> {
        let mut running = self.running();
        if running.closed {
            return Err(shutting_down());
        }
        running.tasks += 1;
        Ok(FileTask(self.clone()))
    }

    /// Lets no task begin any more.
    pub fn close(&self) {
        self.running().closed = true;
    }

    /// True while a task is running.
    pub fn any(&self) -> bool {
        self.running().tasks > 0
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.0.lock().expect("no one panics while holding it")
    }
}

impl Drop for FileTask {
    fn drop(&mut self) {
        self.0.running().tasks -= 1;
    }
}

//! Tracker of tasks that write files of the data directory, apart from the log writer and the stop
//! itself.

use base::Result;
use base::error::shutting_down;
use std::sync::{Arc, Mutex, MutexGuard};

/// Tracker of the tasks that write files: merges, log truncation, checkpoints, received snapshots.
/// A stop waits for all of them and lets none begin: once the process ends, the files may belong to
/// the next one.
#[derive(Default)]
pub struct FileTasks(Mutex<Running>);

#[derive(Default)]
struct Running {
    tasks: usize,
    closed: bool,
}

/// Guard of a running task; dropping it ends the task.
pub struct FileTask(Arc<FileTasks>);

impl FileTasks {
    /// Begins a task. Errors: `shutting_down`.
    pub fn begin(self: &Arc<FileTasks>) -> Result<FileTask> {
        let mut running = self.running();
        if running.closed {
            return Err(shutting_down());
        }
        running.tasks += 1;
        Ok(FileTask(self.clone()))
    }

    /// Refuses new tasks from now on.
    pub fn close(&self) {
        self.running().closed = true;
    }

    /// Returns true if a task is running.
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

//! Tracker of tasks that write files of the data directory, apart from the log writer and the stop
//! itself.

use base::Result;
use base::error::shutting_down;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Tracker of the tasks that write files: merges, log truncation, checkpoints, received snapshots.
/// A stop waits for all of them and lets none begin: once the process ends, the files may belong to
/// the next one.
#[derive(Default)]
pub struct FileTasks(TaskTracker);

/// Guard of a running task; dropping it ends the task.
pub struct FileTask(
    #[expect(dead_code, reason = "it counts until it is dropped")] TaskTrackerToken,
);

impl FileTasks {
    /// Begins a task. Errors: `shutting_down`.
    pub fn begin(&self) -> Result<FileTask> {
        // The token is taken before the check: a concurrent `close` waits for it or is visible
        // here.
        let task = FileTask(self.0.token());
        if self.0.is_closed() { Err(shutting_down()) } else { Ok(task) }
    }

    /// Refuses new tasks.
    pub fn close(&self) {
        self.0.close();
    }

    /// Returns true if a task is running.
    pub fn has_running(&self) -> bool {
        !self.0.is_empty()
    }

    /// Resolves when none is running and none can begin.
    pub async fn wait_all(&self) {
        self.0.wait().await;
    }
}

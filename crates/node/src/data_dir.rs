//! The data directory that a running node holds open.
//!
//! Promises: nothing is written to it once it was closed; the next process may hold it then.

use base::Result;
use base::error::shutting_down;
use runtime::TaskScope;
use runtime::log_writer::store_error;
use std::sync::{Arc, Mutex, MutexGuard};
use store::{DataDir, StoreError};

/// Open data directory, and with it the directory's lock, until the node has stopped.
pub(crate) struct OpenDataDir {
    open: Mutex<Option<DataDir>>,
    /// Parent of the writes.
    tasks: TaskScope,
}

impl OpenDataDir {
    /// `None`: the node has no data directory.
    pub(crate) fn new(data: Option<DataDir>, tasks: TaskScope) -> OpenDataDir {
        OpenDataDir { open: Mutex::new(data), tasks }
    }

    /// Returns the directory, if it is still open. It stays open until the guard is dropped.
    pub(crate) fn get(&self) -> MutexGuard<'_, Option<DataDir>> {
        self.open.lock().expect("no one panics while holding it")
    }

    /// Writes a small file into the directory on a blocking thread. Does nothing while the node
    /// stops.
    pub(crate) async fn write(
        self: &Arc<OpenDataDir>,
        operation: impl FnOnce(&DataDir) -> std::result::Result<(), StoreError> + Send + 'static,
    ) -> Result<()> {
        let open = self.clone();
        let task = move || match &*open.get() {
            Some(data) => operation(data).map_err(store_error),
            None => Ok(()), // The node is stopping.
        };
        self.tasks.run_blocking(task).await.unwrap_or_else(|| Err(shutting_down()))
    }

    /// Drops the directory, and its lock.
    pub(crate) fn close(&self) {
        self.get().take();
    }
}

//! The data directory that a running node holds open.
//!
//! Promises: nothing is written to it once it was closed; the next process may hold it then.

use base::Result;
use base::error::shutting_down;
use runtime::TaskScope;
use runtime::log_writer::store_error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{DataDir, StoreError};

/// Open data directory, and with it the directory's lock, until the node has stopped.
pub struct OpenDataDir {
    directory: Mutex<Option<DataDir>>,
    is_closed: AtomicBool,
    /// Parent of the writes.
    tasks: TaskScope,
}

impl OpenDataDir {
    /// `None`: the node has no data directory.
    pub fn new(data: Option<DataDir>, tasks: TaskScope) -> OpenDataDir {
        OpenDataDir { directory: Mutex::new(data), is_closed: AtomicBool::new(false), tasks }
    }

    /// Returns the directory, if it is still open. It stays open until the guard is dropped.
    pub fn get(&self) -> MutexGuard<'_, Option<DataDir>> {
        self.directory.lock().expect("no one panics while holding it")
    }

    /// Writes a small file into the directory on a blocking thread. Does nothing while the node
    /// stops.
    pub async fn write(
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
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.get().take();
    }

    /// Returns true once the node stops: what is written from then on is lost.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}

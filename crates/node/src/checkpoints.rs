//! Checkpoints that were made before: a list, and their removal.

use crate::Node;
use base::error::shutting_down;
use base::{Error, Reason, Result};
use runtime::log_writer::store_error;
use std::path::PathBuf;
use store::StoredCheckpoint;

/// A checkpoint as it stands in its folder.
#[derive(Clone, Debug)]
pub struct CheckpointStatus {
    /// Its name.
    pub name: String,
    /// False if it is being made, or was cut short.
    pub is_complete: bool,
    /// Time of its making, in milliseconds since 1970, by the file system.
    pub created_ms: u64,
    /// Bytes of all its files, those among them that the node still has.
    pub bytes: u64,
}

impl Node {
    /// Lists the checkpoints in a folder, by their names.
    pub async fn checkpoints(&self, folder: PathBuf) -> Result<Vec<CheckpointStatus>> {
        let list = move || store::checkpoints(&folder).map_err(store_error);
        let stored = self.lifecycle.tasks.requests.run_blocking(list).await;
        let stored = stored.unwrap_or_else(|| Err(shutting_down()))?;
        let status = |StoredCheckpoint { name, is_complete, created_ms, bytes }| CheckpointStatus {
            name,
            is_complete,
            created_ms,
            bytes,
        };
        Ok(stored.into_iter().map(status).collect())
    }

    /// Removes a checkpoint from a folder. `NotFound` if there is none of this name.
    pub async fn remove_checkpoint(&self, folder: PathBuf, name: String) -> Result<()> {
        let remove = move || match store::remove_checkpoint(&folder, &name).map_err(store_error)? {
            true => Ok(()),
            false => {
                let text = format!("no checkpoint `{name}`: `credenza checkpoint list` lists them");
                Err(Error::new(Reason::NotFound, text))
            }
        };
        let removed = self.lifecycle.tasks.requests.run_blocking(remove).await;
        removed.unwrap_or_else(|| Err(shutting_down()))
    }
}

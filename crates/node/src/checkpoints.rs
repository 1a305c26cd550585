//! Checkpoints that were made before: a list, and their removal.

use crate::Node;
use crate::keeper::store_error;
use crate::stopping::going_down;
use base::{Error, Reason, Result};
use std::path::PathBuf;
use store::StoredCheckpoint;
use tokio::task::spawn_blocking;

impl Node {
    /// Lists the checkpoints in a folder.
    pub async fn checkpoints(&self, folder: PathBuf) -> Result<Vec<StoredCheckpoint>> {
        let list = move || store::checkpoints(&folder).map_err(store_error);
        spawn_blocking(list).await.unwrap_or_else(|_| Err(going_down()))
    }

    /// Removes a checkpoint of this name from a folder; `NotFound` if there is none.
    pub async fn remove_checkpoint(&self, folder: PathBuf, name: String) -> Result<()> {
        let remove = move || match store::remove_checkpoint(&folder, &name).map_err(store_error)? {
            true => Ok(()),
            false => {
                let text = format!("no checkpoint `{name}`: `credenza checkpoint list` shows them");
                Err(Error::new(Reason::NotFound, text))
            }
        };
        spawn_blocking(remove).await.unwrap_or_else(|_| Err(going_down()))
    }
}

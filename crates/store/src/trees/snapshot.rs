//! A long read: one view, one number.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::manifest::{damage, error};
use super::view::View;
use super::{Rows, Snapshot};
use crate::StoreError;

/// Rows of a view up to a batch.
pub(super) struct LsmSnapshot {
    pub view: Arc<View>,
    pub sequence: u64,
    pub path: PathBuf,
}

impl Snapshot for LsmSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.view.get(key, self.sequence)?.value)
    }

    fn range(&self, low: Bound<Bytes>, high: Bound<Bytes>, reverse: bool) -> Rows<'_> {
        let mut merged = self.view.range((low, high), self.sequence);
        let mut ended = false;
        Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let step =
                AssertUnwindSafe(|| if reverse { merged.next_back() } else { merged.next() });
            let item = match catch_unwind(step) {
                Ok(item) => item?.map_err(|why| error(&self.path, why)),
                Err(_) => Err(damage(&self.path, "a block has no sense")),
            };
            ended = item.is_err();
            Some(item.map(|row| (row.key.user_key.into(), row.value.into())))
        }))
    }
}

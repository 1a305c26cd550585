//! Table of an entry as tests see it, also those of `replication`: in debug builds only.

use super::{PendingEntry, key_at};
use bytes::Bytes;

impl PendingEntry {
    /// Returns the entry's effects on the selected tree keys, in no order: looks at all of them.
    pub fn select<'a>(
        &'a self,
        is_selected: impl Fn(&[u8]) -> bool + 'a,
    ) -> impl Iterator<Item = (Bytes, Option<Bytes>)> + 'a {
        let bytes = self.bytes();
        self.table.iter().filter_map(move |slot| {
            let key = key_at(bytes, slot.offset);
            is_selected(key).then(|| (Bytes::copy_from_slice(key), self.row_at(slot.offset)))
        })
    }

    /// Returns the number of bytes that the order of the effects takes.
    #[cfg(test)]
    pub fn order_bytes(&self) -> usize {
        self.order.bytes()
    }
}

//! The entry's table as tests see it.

use super::*;

impl PendingEntry {
    /// Returns the entry's effects on the selected tree keys, in no order: looks at all of them.
    pub(crate) fn select<'a>(
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
    pub(crate) fn order_bytes(&self) -> usize {
        self.order.bytes()
    }
}

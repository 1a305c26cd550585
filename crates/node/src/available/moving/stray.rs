//! Rows that lie at a node which neither keeps them nor is known to have them left over.
//!
//! A node that starts may know an older ring than it knew before it fell, by which it owns a
//! partition that it has let go of, and told so. Until it hears more it takes writes for it, and
//! may even have answered them. So once a ring has been in force here for a while it is looked for
//! rows that have no business here, and they are let go of like leftovers (`clear.rs`): all owners
//! have them before they go.
//!
//! Never: while rows are kept for nodes that are away. Those have their business here, and go home
//! by themselves.

use crate::available::hashes::which;
use crate::available::list::unhurried;
use crate::available::slots::{Span, rows_of};
use crate::{Inner, world};
use base::{Partition, Result};
use logic::ring::Ring;
use std::collections::BTreeSet;
use std::sync::Arc;

/// For which ring it was looked.
#[derive(Default)]
pub(super) struct Sweep {
    /// The ring in force here, and since when, milliseconds.
    known: Option<(u64, u64)>,
    /// The last ring that was looked for.
    done: Option<u64>,
}

impl Sweep {
    /// Whether it is time: the ring of this epoch has been in force here for so long.
    pub(super) fn is_due(&mut self, epoch: u64, wait_ms: u64) -> bool {
        let now = world::milliseconds();
        let since = self.known.filter(|(known, _)| *known == epoch).map_or(now, |(_, since)| since);
        self.known = Some((epoch, since));
        self.done != Some(epoch) && now >= since + wait_ms
    }

    /// It was looked.
    pub(super) fn is_done(&mut self, epoch: u64) {
        self.done = Some(epoch);
    }
}

impl Inner {
    /// The partitions of which rows lie here that are not this node's to keep.
    pub(super) async fn strays(self: &Arc<Inner>, ring: &Arc<Ring>) -> Result<BTreeSet<Partition>> {
        let (inner, ring) = (self.clone(), ring.clone());
        unhurried(move || {
            let snapshot = inner.trees.snapshot();
            let most = inner.catalog.available.numbers().last().copied().unwrap_or(0);
            let mut strays = BTreeSet::new();
            for span in Span::all(&ring) {
                if inner.keeps(&ring, (span, most)) {
                    continue;
                }
                let first = rows_of(&*snapshot, span, None).next().transpose()?;
                let of = first.and_then(|(key, _)| which(&key, span.of, &inner.shelf.copies));
                strays.extend(of.filter(|of| !inner.keeps(&ring, *of)).map(|_| span.partition));
            }
            Ok(strays)
        })
        .await
    }
}

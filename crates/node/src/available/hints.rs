//! What was kept for a node that was away goes home when it is back.
//!
//! A fallback that stores a row in place of an owner keeps a *hint* beside it, in the same batch.
//! Once the owner can be reached it is sent the row; the hint goes when the owner has answered that
//! the row is on its disk, and not before. Then the row goes too, if this node is no owner and
//! nobody else is waiting for it.
//!
//! Promises: a hint goes only after an acknowledgement of the node it names (whose greeting said
//! who it is), or, where that node left the ring, of all that own the key now; a row that was
//! written again meanwhile keeps its hint.
//! Never: sends to itself and calls that home.

use super::crowd::Crowd;
use super::hashes::rows_behind;
use super::layout::{hint_key, hints_prefix, read_hint_key, row_key};
use super::letter::Question;
use super::list::unhurried;
use super::local::{Rules, Spot};
use crate::Inner;
use base::limits::FORWARD_MS_MAX;
use base::{NodeId, Partition, Result};
use bytes::Bytes;
use logic::ring::{Ring, point};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// How often it is looked whether somebody is back.
const PAUSE: Duration = Duration::from_millis(500);
/// So many hints are on their way at a time.
const SENDING: usize = 64;
/// So many hints are read at a time.
const PAGE: usize = 1_024;

/// A hint that can go home.
struct Homeward {
    spot: Spot,
    /// Where it is kept.
    kept_in: Partition,
    /// Whom it names.
    primary: NodeId,
    /// Who has to have it before it goes.
    homes: Vec<NodeId>,
}

/// Hands hints back until the node stops.
pub(crate) async fn tend(inner: Arc<Inner>, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow_and_update() {
        let goes_on = match inner.hand_back(&mut stop).await {
            Ok(sent) => sent > 0,
            Err(error) => {
                tracing::warn!(target: "node", %error, "hints stay for now");
                false
            }
        };
        if goes_on {
            continue;
        }
        tokio::select! {
            biased;
            _ = stop.changed() => {}
            () = sleep(PAUSE) => {}
        }
    }
}

impl Inner {
    /// Hands back a page of what can go home now; how many did.
    async fn hand_back(self: &Arc<Inner>, stop: &mut watch::Receiver<bool>) -> Result<usize> {
        if !self.shelf.hinted.swap(false, Ordering::AcqRel) {
            return Ok(0);
        }
        let inner = self.clone();
        let (page, kept) = unhurried(move || inner.homeward()).await?;
        if kept || !page.is_empty() {
            self.shelf.hinted.store(true, Ordering::Release);
        }
        let (mut crowd, mut waiting, mut sent) = (Crowd::new(), 0, 0);
        for one in page {
            if waiting == SENDING {
                sent += usize::from(crowd.next().await);
                waiting -= 1;
            }
            if *stop.borrow_and_update() {
                break;
            }
            let inner = self.clone();
            crowd.push(async move {
                let home = inner.hand_one(&one).await;
                home.inspect_err(|error| {
                    tracing::debug!(target: "node", %error, "a hint stays for now");
                })
                .is_ok()
            });
            waiting += 1;
        }
        for _ in 0..waiting {
            sent += usize::from(crowd.next().await);
        }
        if sent > 0 {
            tracing::info!(target: "node", sent, "hints went home");
        }
        Ok(sent)
    }

    /// A page of hints whose homes can be reached, and whether there are others.
    fn homeward(&self) -> Result<(Vec<Homeward>, bool)> {
        let Some(ring) = self.catalog.available.ring() else { return Ok((Vec::new(), true)) };
        let snapshot = self.trees.snapshot();
        let (mut page, mut kept) = (Vec::new(), false);
        for partition in (0..ring.partitions()).map(Partition) {
            for hint in rows_behind(&*snapshot, &hints_prefix(partition), None) {
                let (key, _) = hint?;
                let Some((primary, bucket, key)) = read_hint_key(&key) else { continue };
                let Some(homes) = self.homes(&ring, primary, &bucket, &key) else { continue };
                if page.len() == PAGE {
                    return Ok((page, true));
                }
                if !homes.iter().all(|home| self.reaches(*home)) {
                    kept = true;
                    continue;
                }
                let now = ring.partition(&point(bucket.full().as_bytes(), &key));
                let spot = Spot { partition: now, bucket, key };
                page.push(Homeward { spot, kept_in: partition, primary, homes });
            }
        }
        Ok((page, kept))
    }

    /// Who has to have a row before its hint goes: whom it names, or, if that one does not own the
    /// key any more, all others that do.
    fn homes(
        &self,
        ring: &Ring,
        primary: NodeId,
        bucket: &base::BucketName,
        key: &[u8],
    ) -> Option<Vec<NodeId>> {
        let copies = (self.shelf.copies)(bucket)?;
        let partition = ring.partition(&point(bucket.full().as_bytes(), key));
        let mut owners = ring.owners(partition, usize::from(copies));
        if owners.contains(&primary) {
            owners = vec![primary];
        }
        owners.retain(|node| *node != self.node);
        Some(owners)
    }

    /// Sends one row home; gives an error if its hint stays.
    async fn hand_one(self: &Arc<Inner>, one: &Homeward) -> Result<()> {
        let Homeward { spot, kept_in, homes, .. } = one;
        let kept = Spot { partition: *kept_in, ..spot.clone() };
        let sent = self.shelf.read(&kept)?;
        if let Some(row) = &sent
            && let Some(properties) = self.catalog.available.find(&spot.bucket)
        {
            // What goes home must not be lost there, whatever the bucket's writes risk: nobody
            // else will send it again.
            let rules = Rules { sync: true, ..Rules::of(&properties) };
            let within = Duration::from_millis(FORWARD_MS_MAX);
            for home in homes {
                let (spot, row) = (spot.clone(), row.clone());
                let question = Question::Store { spot, rules, hint: None, row };
                self.ask_vnode(*home, question.write(), within).await?;
            }
        }
        let released = self.release(one, sent.as_ref())?;
        self.shelf.settled(released).await
    }

    /// The hint goes, unless the row is another one by now; so does the row, if nobody needs it
    /// here. Gives the ticket.
    fn release(&self, one: &Homeward, sent: Option<&Bytes>) -> Result<u64> {
        let Homeward { spot, kept_in, primary, .. } = one;
        let row = row_key(*kept_in, &spot.bucket, &spot.key);
        let hint = |node| hint_key(*kept_in, node, &spot.bucket, &spot.key);
        let mut guard = self.shelf.admit()?;
        let state = &mut *guard;
        let (index, newest) = self.shelf.newest(state, &row)?;
        if newest.as_ref() != sent {
            return Ok(index);
        }
        let mut changes = vec![(hint(*primary), None)];
        if newest.is_some() && self.is_only_a_guest(state, one)? {
            changes.push((row, None));
        }
        Ok(self.shelf.change(state, changes, false))
    }

    /// Whether this node keeps a row for nobody else, and not as its own.
    fn is_only_a_guest(&self, state: &super::shelf::State, one: &Homeward) -> Result<bool> {
        let Homeward { spot, kept_in, primary, .. } = one;
        let Some(ring) = self.catalog.available.ring() else { return Ok(false) };
        let Some(copies) = (self.shelf.copies)(&spot.bucket) else { return Ok(false) };
        if ring.owners(spot.partition, copies.into()).contains(&self.node) {
            return Ok(false);
        }
        for node in ring.layout().nodes().keys().filter(|node| *node != primary) {
            let other = hint_key(*kept_in, *node, &spot.bucket, &spot.key);
            if self.shelf.newest(state, &other)?.1.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

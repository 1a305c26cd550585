//! Changes of the feeds of this node that other nodes, and this one, ask for.
//!
//! Changes have numbers, and a node that asks says behind which. Only the last one of each bucket
//! is kept, of [`BUCKETS_MAX`] buckets: who is further behind is told that any may have changed.
//! Nothing is kept while nobody has asked for [`ASKED_MS`].
//!
//! Promises: what is noted is told to all who ask behind an earlier mark; memory is bounded.
//! Never: notes an entry that can't be read yet (that is the caller's part).

use base::{BucketName, Result};
use change_feed::{ChangeMark, FeedChanges};
use runtime::{CancellationToken, world};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;

/// Maximum number of buckets whose last change is kept.
const BUCKETS_MAX: usize = 1_024;
/// Time for which changes are noted behind a question, in milliseconds: longer than a question
/// waits, and the pause behind one that failed.
const ASKED_MS: u64 = 20_000;
/// Part of that time in which a question finds changes that may not have been noted, in
/// milliseconds.
const DOUBT_MS: u64 = 1_000;

/// See the head of this file.
pub struct RecentChanges {
    life: u64,
    /// Time through which changes are noted, in milliseconds. Changed under the lock.
    asked_until_ms: AtomicU64,
    state: Mutex<ChangeState>,
    /// Number of the last change.
    last: watch::Sender<u64>,
}

#[derive(Default)]
struct ChangeState {
    /// Number of the last change.
    last: u64,
    /// Number through which changes are not known any more.
    forgotten: u64,
    /// Last change of each bucket, by number.
    by_number: BTreeMap<u64, BucketName>,
    /// Number of the last change of each bucket.
    by_bucket: BTreeMap<BucketName, u64>,
}

impl RecentChanges {
    /// Creates it for an incarnation of the node.
    pub fn new(life: u64) -> RecentChanges {
        let (asked_until_ms, last) = (AtomicU64::new(0), watch::Sender::new(0));
        RecentChanges { life, asked_until_ms, state: Mutex::default(), last }
    }

    /// Returns true if changes are to be noted.
    #[inline]
    pub fn is_asked(&self) -> bool {
        // 0 while nobody has ever asked: no clock is read then.
        let until_ms = self.asked_until_ms.load(Ordering::Acquire);
        until_ms > 0 && world::milliseconds() < until_ms
    }

    /// Answers a question: waits for changes behind a mark, until the token is cancelled at the
    /// latest. `readable`: resolves once all that was accepted before can be read.
    ///
    /// Errors: those of `readable`.
    pub async fn answer(
        &self,
        behind: Option<ChangeMark>,
        wait: Duration,
        readable: impl Future<Output = Result<()>>,
        stop: &CancellationToken,
    ) -> Result<FeedChanges> {
        let is_known = self.ask(behind);
        let Some(mark) = behind.filter(|_| is_known) else {
            // What was accepted before may not have been noted.
            readable.await?;
            return Ok(self.any());
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(self.any()),
            changes = self.wait_behind(mark, wait) => Ok(changes),
        }
    }

    /// Notes that somebody asks: changes from now on are noted for a while. Returns true if what
    /// lies behind the mark is known.
    pub(crate) fn ask(&self, behind: Option<ChangeMark>) -> bool {
        let mut state = self.state();
        let now_ms = world::milliseconds();
        if now_ms + DOUBT_MS > self.asked_until_ms.load(Ordering::Acquire) {
            state.forget_all();
        }
        self.asked_until_ms.store(now_ms + ASKED_MS, Ordering::Release);
        behind.is_some_and(|mark| mark.life == self.life && state.knows(mark.number))
    }

    /// Returns the answer for those who know nothing: any feed may have changed.
    pub(crate) fn any(&self) -> FeedChanges {
        self.changes(self.state().last, None)
    }

    /// Notes that entries of these feeds can be read now.
    pub fn note(&self, buckets: BTreeSet<BucketName>) {
        if buckets.is_empty() {
            return;
        }
        let last = {
            let mut state = self.state();
            buckets.into_iter().for_each(|bucket| state.note(bucket));
            state.last
        };
        self.last.send_replace(last);
    }

    /// Waits for changes behind a mark, for so long at most, and returns them.
    pub(crate) async fn wait_behind(&self, mark: ChangeMark, wait: Duration) -> FeedChanges {
        let mut last = self.last.subscribe();
        let change = async {
            // The sender lives as long as this.
            let _ = last.wait_for(|last| *last > mark.number).await;
        };
        let _ = world::timeout(wait, change).await;
        let state = self.state();
        if !state.knows(mark.number) {
            return self.changes(state.last, None);
        }
        let found = state.by_number.range(mark.number + 1..);
        self.changes(state.last, Some(found.map(|(_, bucket)| bucket.clone()).collect()))
    }

    fn changes(&self, number: u64, buckets: Option<Vec<BucketName>>) -> FeedChanges {
        FeedChanges { mark: ChangeMark { life: self.life, number }, buckets }
    }

    fn state(&self) -> MutexGuard<'_, ChangeState> {
        self.state.lock().expect("no one panics while holding it")
    }
}

impl ChangeState {
    /// Returns true if all changes behind a number are known.
    fn knows(&self, number: u64) -> bool {
        (self.forgotten..=self.last).contains(&number)
    }

    /// Forgets all changes, and counts one that nobody knows.
    fn forget_all(&mut self) {
        self.last += 1;
        self.forgotten = self.last;
        self.by_number.clear();
        self.by_bucket.clear();
    }

    fn note(&mut self, bucket: BucketName) {
        self.last += 1;
        if let Some(before) = self.by_bucket.insert(bucket.clone(), self.last) {
            self.by_number.remove(&before);
        }
        self.by_number.insert(self.last, bucket);
        if self.by_number.len() > BUCKETS_MAX
            && let Some((number, bucket)) = self.by_number.pop_first()
        {
            self.by_bucket.remove(&bucket);
            self.forgotten = number;
        }
    }
}

//! `KEYS` and `SCAN`: pages of keys, and those among them that match a pattern; `COMMAND LIST`:
//! names of commands that pass a filter.
//!
//! Matching is linear, but a client chooses pattern and keys, and matching a page may take tens of
//! milliseconds. So it yields to other tasks, and at most half of the node's threads match at a
//! time: the others carry the heartbeats that keep a master's lease.

use super::client::Client;
use super::cursors::ScanOwner;
use super::errors::{self, RespRefusal};
use super::glob::{Glob, YIELD_MATCH_COST};
use super::registry::Registry;
use super::serve::RespConnection;
use super::translate::{CommandFilter, Scan, scan_range};
use crate::buffer_budget::overloaded;
use crate::shared::Shared;
use base::limits::PAGE_ROWS_MAX;
use base::{Entry, Key, Range, RowContent};
use bytes::Bytes;
use tokio::task::yield_now;

/// Most bytes of keys in the answer to one `KEYS`.
const KEYS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Number of keys that `KEYS` reads in one request.
const KEYS_PAGE_ROWS: usize = 10_000;

impl RespConnection {
    /// Answers `KEYS`: reads all keys that can match, page by page, and keeps the matching ones as
    /// frames.
    pub(super) async fn keys(&mut self, glob: &Glob) {
        let mut matching = super::output::Output::new(self.out.protocol);
        let mut count = 0;
        let mut range = Range { rows_max: Some(KEYS_PAGE_ROWS), ..scan_range(glob) };
        loop {
            let page = match self.read_page(range.clone()).await {
                Ok(page) => page,
                Err(error) => return self.fail(&error),
            };
            let last = page.entries.last().filter(|_| page.more).map(|last| last.key.clone());
            for key in matching_keys(&self.registry, Some(glob), page.entries).await {
                matching.bulk(&key);
                count += 1;
            }
            // Twice: the frames are copied once more at the end.
            if !self.answer_budget.try_reserve(2 * matching.len(), &self.shared) {
                return self.fail(&overloaded());
            }
            if matching.len() > KEYS_BYTES_MAX {
                return self.refuse(&RespRefusal::new(errors::TOO_MANY_KEYS));
            }
            match last {
                Some(last) => range = range.after(last),
                None => break,
            }
            // Matching a page may have taken a while: let other tasks run.
            yield_now().await;
        }
        self.out.array(count);
        self.out.frames(Bytes::from(matching.to_bytes()));
    }

    /// Answers `SCAN`: reads one page of keys.
    pub(super) async fn scan(&mut self, scan: Scan) {
        let mut range = match &scan.glob {
            Some(glob) => scan_range(glob),
            None => Range { want: RowContent::Keys, ..Range::default() },
        };
        range.rows_max = Some(scan.count);
        if scan.cursor != 0 {
            let owner = scan_owner(&self.client, &self.shared);
            let after = self.registry.cursors().resume(owner, scan.cursor);
            match after {
                Some(after) => range = range.after(after),
                None => {
                    return self.refuse(&RespRefusal::new(
                        "ERR invalid cursor: it is too old, or of another bucket or user; begin \
                         again with SCAN 0",
                    ));
                }
            }
        }
        let page = match self.read_page(range).await {
            Ok(page) => page,
            Err(error) => return self.fail(&error),
        };
        let next = {
            let owner = scan_owner(&self.client, &self.shared);
            let mut cursors = self.registry.cursors();
            match page.entries.last().filter(|_| page.more) {
                Some(last) => cursors.open(owner, &last.key, scan.cursor),
                None => {
                    cursors.close(owner, scan.cursor);
                    0
                }
            }
        };
        let matching = match scan.strings {
            true => matching_keys(&self.registry, scan.glob.as_ref(), page.entries).await,
            false => Vec::new(),
        };
        self.out.array(2);
        self.out.text(next.to_string());
        self.out.array(matching.len());
        matching.iter().for_each(|key| self.out.value(key));
    }
}

/// Returns the owner of a client's scans. While access is off they are nobody's: a login of before
/// doesn't count.
fn scan_owner<'a>(client: &'a Client, shared: &Shared) -> ScanOwner<'a> {
    let user = client.principal.user().filter(|_| shared.node.is_access_on());
    ScanOwner { user, bucket: &client.bucket }
}

/// Returns the keys that match, in order. `None`: all match. Waits for one of the turns that all
/// connections share.
async fn matching_keys(registry: &Registry, glob: Option<&Glob>, entries: Vec<Entry>) -> Vec<Key> {
    let Some(glob) = glob else { return entries.into_iter().map(|entry| entry.key).collect() };
    let _turn = registry.match_turn().await;
    let (mut matching, mut cost) = (Vec::new(), 0);
    for Entry { key, .. } in entries {
        cost += glob.match_cost(key.len());
        if glob.matches(&key) {
            matching.push(key);
        }
        if cost > YIELD_MATCH_COST {
            cost = 0;
            yield_now().await;
        }
    }
    matching
}

/// Returns the names of commands that pass a filter. Waits for a turn, as matching of keys does.
pub(super) async fn filtered_names(
    registry: &Registry,
    filter: &CommandFilter,
) -> Vec<&'static str> {
    let _turn = registry.match_turn().await;
    filter.names()
}

/// A page of `KEYS` must not exceed the limit of a page.
const _: () = assert!(KEYS_PAGE_ROWS <= PAGE_ROWS_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn entries(count: usize) -> Vec<Entry> {
        let entry = |number: usize| Entry { key: Key::from(format!("{number:0200}")), row: None };
        (0..count).map(entry).collect()
    }

    /// A single thread is enough for other tasks, however long the patterns take.
    #[tokio::test]
    async fn long_match_lets_other_tasks_run_and_takes_turns() {
        let registry = Arc::new(Registry::new(Clock::Wall));
        let glob = Glob::new(format!("*{}x", "[0-9]".repeat(200)).as_bytes());
        let other_ran = Arc::new(AtomicBool::new(false));
        let flag = other_ran.clone();
        let other = tokio::spawn(async move { flag.store(true, Ordering::SeqCst) });
        let found = matching_keys(&registry, Some(&glob), entries(5_000)).await;
        assert!(found.is_empty());
        assert!(other_ran.load(Ordering::SeqCst), "it had to wait for the whole page");
        other.await.expect("it ends");
        let turn = registry.match_turn().await;
        let mut waiting = Box::pin(matching_keys(&registry, Some(&glob), entries(1)));
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, &mut waiting).await.is_err(), "one at a time here");
        drop(turn);
        assert!(waiting.await.is_empty());
        let all = Glob::new(b"*7");
        assert_eq!(matching_keys(&registry, Some(&all), entries(20)).await.len(), 2);
        assert_eq!(matching_keys(&registry, None, entries(20)).await.len(), 20);
    }

    #[tokio::test]
    async fn filtered_names_of_commands_take_turns() {
        let registry = Registry::new(Clock::Wall);
        let pattern = CommandFilter::Pattern(Glob::new(b"*del*"));
        let turn = registry.match_turn().await;
        let mut waiting = Box::pin(filtered_names(&registry, &pattern));
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, &mut waiting).await.is_err(), "one at a time here");
        drop(turn);
        let names = waiting.await;
        assert!(names.contains(&"del") && names.iter().all(|name| name.contains("del")));
        let readers = CommandFilter::Category("@read".into());
        let names = filtered_names(&registry, &readers).await;
        assert!(names.contains(&"get") && !names.contains(&"del"), "{names:?}");
    }
}

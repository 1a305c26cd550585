//! Errands: commands that take several requests, or that concern more than one connection.

use super::errors::{self, RespRefusal};
use super::glob::Glob;
use super::information;
use super::operation::operation;
use super::serve::{ANSWER_BYTES, RespConnection};
use super::translate::{
    CommandContext, InfoSection, Kill, Listed, MultiStep, RespShape, Scan, line_of_list,
    parameters, range_of,
};
use crate::counters::Verdict;
use base::limits::PAGE_ROWS_MAX;
use base::range::Direction;
use base::{
    Body, Bound, Call, DirectoryCall, Error, Key, Page, Range, Read, ReadLevel, Reason, Reply,
    Request, SyncPolicy, Want,
};
use bytes::Bytes;
use node::Submitted;

/// Most bytes of keys in the answer to one `KEYS`.
const KEYS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Number of keys that `KEYS` reads in one request.
const KEYS_PAGE_ROWS: usize = 10_000;
/// Amount of pattern matching after which the task yields: well under a millisecond.
const WORK_AT_ONCE: usize = 256 * 1024;
/// Number of consecutive keys from which `RANDOMKEY` draws one.
const RANDOM_KEYS: usize = 1_000;
/// Number of keys that a large `MGET` reads in one request.
const VALUES_KEYS: usize = 128;
/// `INFO` counts keys exactly in a store of up to so many rows; of a larger one it has an estimate.
const ROWS_COUNTED_MAX: u64 = 100_000;

impl RespConnection {
    /// Runs an errand, and writes exactly one answer. Fails only if the connection does.
    pub(super) async fn run_multi_step(&mut self, multi_step: MultiStep) -> Result<(), ()> {
        match multi_step {
            MultiStep::Keys(glob) => self.keys(&glob).await,
            MultiStep::Scan(scan) => self.scan(scan).await,
            MultiStep::RandomKey => self.random_key().await,
            MultiStep::Values(keys) => return self.values(&keys).await,
            MultiStep::Info(sections) => {
                let keys = match sections.contains(&InfoSection::Keyspace) {
                    true => self.keys_of_bucket().await,
                    false => None,
                };
                let text =
                    information::text(&sections, &self.shared, &self.registry, &self.client, keys);
                self.out.verbatim(&text);
            }
            MultiStep::Configuration(globs) => self.configuration(&globs).await,
            MultiStep::List(listed) => self.list(&listed),
            MultiStep::Kill(kill) => self.kill(&kill),
            MultiStep::Role => self.role(),
            MultiStep::ResetCounts => {
                self.registry.counts.reset();
                self.out.ok();
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: &Error) {
        self.client.tally.errors += 1;
        self.out.error(&errors::text(error));
    }

    fn refuse(&mut self, refusal: &RespRefusal) {
        self.client.tally.errors += 1;
        self.out.error(&refusal.0);
    }

    /// Submits a request of an errand and waits for its decided reply.
    async fn ask(&mut self, call: Call) -> base::Result<Reply> {
        let request = Request { bucket: self.client.bucket.clone(), call, retry: None };
        let operation = operation(&request.call);
        let reply = match self.submit(request) {
            Submitted::Ready(reply) => reply,
            Submitted::Pending(ticket, reply) => self.shared.node.decided(ticket).await.and(reply),
            Submitted::Later(reply) | Submitted::Independent(_, reply) => reply.await,
        };
        self.verdict(operation, Verdict::of(&reply));
        if let Ok(reply) = &reply {
            self.client.last_index = reply.index;
        }
        reply
    }

    async fn page(&mut self, range: Range) -> base::Result<Page> {
        let call = Call::Read(Read::Range(range), self.client.read_level);
        match self.ask(call).await?.body {
            Body::Page(page) => Ok(page),
            _ => Err(Error::new(Reason::Malformed, "a range was not answered with a page")),
        }
    }

    /// Answers `KEYS`: reads all keys that can match, page by page, and keeps the matching ones as
    /// frames.
    async fn keys(&mut self, glob: &Glob) {
        let mut found = super::output::Output::new(self.out.protocol);
        let mut count = 0;
        let mut range = Range { rows_max: Some(KEYS_PAGE_ROWS), ..range_of(glob) };
        let mut share = None;
        loop {
            let page = match self.page(range.clone()).await {
                Ok(page) => page,
                Err(error) => return self.fail(&error),
            };
            let mut work = 0;
            for entry in &page.entries {
                if glob.fits(&entry.key) {
                    found.bulk(&entry.key);
                    count += 1;
                }
                work += glob.work(entry.key.len());
                if work > WORK_AT_ONCE {
                    work = 0;
                    tokio::task::yield_now().await;
                }
            }
            if found.len() > ANSWER_BYTES && share.is_none() {
                share = self.shared.reserve(KEYS_BYTES_MAX);
                if share.is_none() {
                    let text = "too many large answers at a time: try again later";
                    return self.fail(&Error::new(Reason::Overloaded, text));
                }
            }
            if found.len() > KEYS_BYTES_MAX {
                return self.refuse(&RespRefusal::new(errors::TOO_MANY_KEYS));
            }
            match page.entries.into_iter().next_back().filter(|_| page.more) {
                Some(last) => range = range.after(last.key),
                None => break,
            }
            // Matching a page may have taken a while: let other tasks run.
            tokio::task::yield_now().await;
        }
        self.out.array(count);
        self.out.frames(Bytes::from(found.to_bytes()));
        // Send now, because `share` is released when this function returns.
        if share.is_some() {
            let _ = self.send_part().await;
        }
    }

    async fn scan(&mut self, scan: Scan) {
        let mut range = match &scan.glob {
            Some(glob) => range_of(glob),
            None => Range { want: Want::Keys, ..Range::default() },
        };
        range.rows_max = Some(scan.count);
        if scan.cursor != 0 {
            let position = self.registry.cursors().resume(&self.client.bucket, scan.cursor);
            match position {
                Some(position) => range = range.after(position.after),
                None => {
                    return self.refuse(&RespRefusal::new(
                        "ERR invalid cursor: it is too old, or of another bucket; begin again \
                         with SCAN 0",
                    ));
                }
            }
        }
        let page = match self.page(range).await {
            Ok(page) => page,
            Err(error) => return self.fail(&error),
        };
        let next = {
            let mut cursors = self.registry.cursors();
            match page.entries.last().filter(|_| page.more) {
                Some(last) => cursors.open(&self.client.bucket, &last.key, scan.cursor),
                None => {
                    cursors.close(scan.cursor);
                    0
                }
            }
        };
        let fits = |key: &Key| scan.strings && scan.glob.as_ref().is_none_or(|g| g.fits(key));
        let found: Vec<_> = page.entries.iter().filter(|entry| fits(&entry.key)).collect();
        self.out.array(2);
        self.out.text(next.to_string());
        self.out.array(found.len());
        found.iter().for_each(|entry| self.out.value(&entry.key));
    }

    /// Returns the keys of a range, at most `rows_max`.
    async fn keys_of(&mut self, range: Range, rows_max: usize) -> base::Result<Vec<Key>> {
        let range = Range { rows_max: Some(rows_max), want: Want::Keys, ..range };
        Ok(self.page(range).await?.entries.into_iter().map(|entry| entry.key).collect())
    }

    /// Answers `RANDOMKEY` with one of the next `RANDOM_KEYS` keys behind a random position between
    /// the lowest key and the highest; the range wraps around at the highest. Every key can be
    /// drawn. In larger buckets, keys behind large gaps are drawn more often.
    async fn random_key(&mut self) {
        match self.some_key().await {
            Ok(Some(key)) => self.out.value(&key),
            Ok(None) => self.out.null(),
            Err(error) => self.fail(&error),
        }
    }

    async fn some_key(&mut self) -> base::Result<Option<Key>> {
        let lowest = self.keys_of(Range::default(), 1).await?;
        let backwards = Range { direction: Direction::Descending, ..Range::default() };
        let highest = self.keys_of(backwards, 1).await?;
        let (Some(first), Some(last)) = (lowest.first(), highest.first()) else { return Ok(None) };
        let chance = mixed(self.registry.clock.since_1970().as_nanos() as u64);
        let place = Bound::Included(place_between(first, last, chance));
        let behind = Range { low: place, ..Range::default() };
        let mut few = self.keys_of(behind, RANDOM_KEYS).await?;
        if few.len() < RANDOM_KEYS {
            // End before the first of them, so that no key is drawn from twice.
            let high = few.first().cloned().map_or(Bound::Open, Bound::Excluded);
            let before = Range { high, ..Range::default() };
            few.extend(self.keys_of(before, RANDOM_KEYS - few.len()).await?);
        }
        let at = mixed(chance) as usize % few.len().max(1);
        Ok((at < few.len()).then(|| few.swap_remove(at)))
    }

    /// Answers `MGET` of more keys than one request may read, and writes values as they arrive. An
    /// error replaces only the value it belongs to.
    async fn values(&mut self, keys: &[Key]) -> Result<(), ()> {
        self.out.array(keys.len());
        for part in keys.chunks(VALUES_KEYS) {
            let read = Read::MultiGet(part.to_vec());
            match self.ask(Call::Read(read, self.client.read_level)).await {
                Ok(reply) => self.speak_rows(reply.body),
                Err(_) => {
                    // The values together may be too large, or one of them is unreadable: read each
                    // by itself.
                    for key in part {
                        let read = Read::Get(key.clone());
                        match self.ask(Call::Read(read, self.client.read_level)).await {
                            Ok(reply) => self.speak_rows(reply.body),
                            Err(error) => self.fail(&error),
                        }
                        self.send_part().await?;
                    }
                }
            }
            self.send_part().await?;
        }
        Ok(())
    }

    fn speak_rows(&mut self, body: Body) {
        let rows = match body {
            Body::Rows(rows) => rows,
            Body::Row(row) => vec![row],
            _ => Vec::new(),
        };
        let (shared, client, out) = (&*self.shared, &mut self.client, &mut self.out);
        let clock = self.registry.clock;
        let mut talk = CommandContext { client, out, clock, shared, as_step: false, depth: 0 };
        for row in rows {
            RespShape::Value.speak(Ok(Body::Row(row)), &mut talk);
        }
    }

    /// Sends the answer written so far, if it is large.
    async fn send_part(&mut self) -> Result<(), ()> {
        if self.out.len() < ANSWER_BYTES {
            return Ok(());
        }
        if self.client.replies != super::client::Replies::On {
            self.out.clear();
            return Ok(());
        }
        self.send().await
    }

    /// Returns the number of keys in the connection's bucket. `None`: the store is too large to
    /// count them.
    async fn keys_of_bucket(&mut self) -> Option<u64> {
        if self.shared.node.status().store.rows_estimated > ROWS_COUNTED_MAX {
            return None;
        }
        let call = Call::Read(Read::KeyCount, ReadLevel::Dirty);
        match self.ask(call).await.ok()?.body {
            Body::Count(keys) => Some(keys),
            _ => None,
        }
    }

    async fn configuration(&mut self, globs: &[Glob]) {
        // A dropped bucket takes no writes, so any policy is true of it.
        let described = self.ask(Call::Directory(DirectoryCall::DescribeBucket)).await;
        let sync = match described.map(|reply| reply.body) {
            Ok(Body::Buckets(found)) => found.first().map(|bucket| bucket.properties.sync),
            _ => None,
        };
        let mut found =
            parameters(sync.unwrap_or(SyncPolicy::Sync), self.shared.settings.resp_idle_ms_max)
                .to_vec();
        found.retain(|(name, _)| globs.iter().any(|glob| glob.fits(name.as_bytes())));
        self.out.map(found.len());
        for (name, text) in found {
            self.out.text(name);
            self.out.text(text);
        }
    }

    fn list(&mut self, listed: &Listed) {
        let shown = |id: u64| match listed {
            Listed::All => true,
            Listed::Nobody => false,
            Listed::Ids(ids) => ids.contains(&id),
            Listed::Myself(me) => *me == id,
        };
        let now = self.registry.clock.unix_ms();
        let cards = self.registry.clients();
        let lines = cards.iter().filter(|card| shown(card.id)).map(|card| line_of_list(card, now));
        self.out.verbatim(&lines.collect::<String>());
    }

    fn kill(&mut self, kill: &Kill) {
        let cards = self.registry.clients();
        let named: Vec<_> = cards.iter().filter(|card| kill.names(card)).collect();
        named.iter().for_each(|card| card.activity.end());
        match (kill.old_form, named.is_empty()) {
            (true, true) => self.refuse(&RespRefusal::new("ERR No such client")),
            (true, false) => self.out.ok(),
            (false, _) => self.out.integer(named.len() as i64),
        }
    }

    fn role(&mut self) {
        let status = self.shared.node.status();
        let role = information::Role::of(&self.shared, &self.client, &status);
        match &role.master {
            None => {
                self.out.array(3);
                self.out.text(role.word());
                self.out.count(role.offset);
                self.out.array(0);
            }
            Some((host, port, connected)) => {
                self.out.array(5);
                self.out.text(role.word());
                self.out.text(host.clone());
                self.out.count(u64::from(*port));
                self.out.text(if *connected { "connected" } else { "connect" });
                self.out.count(role.offset);
            }
        }
    }
}

/// Returns a random key between two keys: their common prefix, then eight bytes drawn between the
/// next eight bytes of each, taken as numbers.
fn place_between(low: &[u8], high: &[u8], chance: u64) -> Key {
    let same = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = &key[same..(same + 8).min(key.len())];
        bytes[..rest.len()].copy_from_slice(rest);
        u64::from_be_bytes(bytes)
    };
    let (low_number, high_number) = (number(low), number(high));
    let span = high_number.saturating_sub(low_number).saturating_add(1);
    let place = low_number + chance % span;
    [&low[..same], &place.to_be_bytes()].concat().into()
}

/// Spreads the entropy of a nanosecond count over all bits, by multiplying and folding.
fn mixed(chance: u64) -> u64 {
    let mixed = chance.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 32
}

/// A page of `KEYS` must not exceed the limit of a page.
const _: () = assert!(KEYS_PAGE_ROWS <= PAGE_ROWS_MAX);

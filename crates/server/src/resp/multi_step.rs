//! Multi-step commands: those of several requests, or that concern more than one connection.

use super::errors::{self, RespRefusal};
use super::glob::Glob;
use super::information;
use super::operation::operation;
use super::scans::filtered_names;
use super::serve::{ANSWER_BYTES, DeferredReply, RespConnection};
use super::translate::{
    ClientSelection, CommandContext, InfoSection, KillFilter, MultiStep, RespShape,
    client_list_line, parameters, write_names,
};
use crate::buffer_budget::overloaded;
use crate::counters::{OperationKind, Verdict};
use base::range::Direction;
use base::{
    Body, Bound, Call, DirectoryCall, Error, Key, Page, Range, Read, ReadLevel, Reason, Reply,
    Request, RowContent, SyncPolicy,
};
use node::{RecordedAct, SubmitResult};

/// Number of consecutive keys among which `RANDOMKEY` draws one.
const RANDOM_KEY_CANDIDATES: usize = 1_000;
/// Number of keys that a large `MGET` reads in one request.
const MGET_PART_KEYS: usize = 128;
/// `INFO` counts keys by a scan in a store of up to so many rows; of a larger one it estimates.
const ROWS_COUNTED_MAX: u64 = 100_000;

impl RespConnection {
    /// Returns a multi-step command to run, unless it is an act that its principal may not do.
    pub(super) fn defer(&mut self, multi_step: MultiStep) -> Option<DeferredReply> {
        let node = &self.shared.node;
        let decided = match multi_step.act() {
            Some(act) => node.authorize(&self.client.principal, act),
            None => Ok(RecordedAct::UNRECORDED),
        };
        match decided {
            Ok(act) => Some(DeferredReply::MultiStep(multi_step, act)),
            Err(error) => {
                self.record_outcome(OperationKind::Other, Verdict::Failed(error.kind()));
                self.fail(&error);
                None
            }
        }
    }

    /// Runs a multi-step command, writes exactly one answer, and records the outcome of an act.
    /// Fails only if the connection does.
    pub(super) async fn run_multi_step(
        &mut self,
        multi_step: MultiStep,
        act: RecordedAct,
    ) -> Result<(), ()> {
        let mut outcome = Ok(());
        match multi_step {
            MultiStep::Keys(glob) => self.keys(&glob).await,
            MultiStep::Scan(scan) => self.scan(scan).await,
            MultiStep::RandomKey => self.random_key().await,
            MultiStep::Values(keys) => return self.values(&keys).await,
            MultiStep::Info(sections) => {
                let keys = match sections.contains(&InfoSection::Keyspace) {
                    true => self.count_keys().await,
                    false => None,
                };
                let text =
                    information::text(&sections, &self.shared, &self.registry, &self.client, keys);
                self.out.verbatim(&text);
            }
            MultiStep::Configuration(globs) => self.configuration(&globs).await,
            MultiStep::CommandNames(filter) => {
                write_names(&filtered_names(&self.registry, &filter).await, &mut self.out);
            }
            MultiStep::List(selection) => self.list(&selection),
            MultiStep::Kill(kill) => outcome = self.kill(&kill),
            MultiStep::Role => self.role(),
            MultiStep::ResetCounts => {
                self.registry.counts.reset();
                self.out.ok();
            }
            MultiStep::Login(login) => self.login(login).await,
            MultiStep::Feed(request) => self.read_feed(*request).await,
        }
        act.finish(&outcome);
        Ok(())
    }

    pub(super) fn fail(&mut self, error: &Error) {
        self.client.counts.errors += 1;
        self.out.error(&errors::text(error));
    }

    pub(super) fn refuse(&mut self, refusal: &RespRefusal) {
        self.client.counts.errors += 1;
        self.out.error(&refusal.0);
    }

    /// Submits one call of a multi-step command and waits for its decided reply.
    async fn call_node(&mut self, call: Call) -> base::Result<Reply> {
        let request = Request { bucket: self.client.bucket.clone(), call, retry: None };
        let operation = operation(&request.call);
        let reply = match self.submit(request) {
            SubmitResult::Ready(reply) => reply,
            SubmitResult::Pending(ticket, reply) => {
                self.shared.node.wait_decided(ticket).await.and(reply)
            }
            SubmitResult::Later(reply) | SubmitResult::Independent(_, reply) => reply.await,
        };
        self.record_outcome(operation, Verdict::from_result(&reply));
        if let Ok(reply) = &reply {
            self.client.last_index = reply.index;
        }
        reply
    }

    pub(super) async fn read_page(&mut self, range: Range) -> base::Result<Page> {
        let call = Call::Read(Read::Range(range), self.client.read_level);
        match self.call_node(call).await?.body {
            Body::Page(page) => Ok(page),
            _ => Err(Error::new(Reason::Malformed, "a range was not answered with a page")),
        }
    }

    /// Returns the keys of a range, at most `rows_max`.
    async fn read_keys(&mut self, range: Range, rows_max: usize) -> base::Result<Vec<Key>> {
        let range = Range { rows_max: Some(rows_max), want: RowContent::Keys, ..range };
        Ok(self.read_page(range).await?.entries.into_iter().map(|entry| entry.key).collect())
    }

    /// Answers `RANDOMKEY` with one of `RANDOM_KEY_CANDIDATES` keys behind a random position
    /// between the lowest key and the highest; the range wraps around at the highest. Every key can
    /// be drawn. In larger buckets, keys behind large gaps are drawn more often.
    async fn random_key(&mut self) {
        match self.draw_key().await {
            Ok(Some(key)) => self.out.value(&key),
            Ok(None) => self.out.null(),
            Err(error) => self.fail(&error),
        }
    }

    async fn draw_key(&mut self) -> base::Result<Option<Key>> {
        let lowest = self.read_keys(Range::default(), 1).await?;
        let descending = Range { direction: Direction::Descending, ..Range::default() };
        let highest = self.read_keys(descending, 1).await?;
        let (Some(first), Some(last)) = (lowest.first(), highest.first()) else { return Ok(None) };
        let random = mix_bits(self.registry.clock.unix_time().as_nanos() as u64);
        let position = Bound::Included(random_key_between(first, last, random));
        let from_position = Range { low: position, ..Range::default() };
        let mut candidates = self.read_keys(from_position, RANDOM_KEY_CANDIDATES).await?;
        if candidates.len() < RANDOM_KEY_CANDIDATES {
            // End before the first candidate, so that no key is a candidate twice.
            let high = candidates.first().cloned().map_or(Bound::Open, Bound::Excluded);
            let below_position = Range { high, ..Range::default() };
            candidates.extend(
                self.read_keys(below_position, RANDOM_KEY_CANDIDATES - candidates.len()).await?,
            );
        }
        let chosen = mix_bits(random) as usize % candidates.len().max(1);
        Ok((chosen < candidates.len()).then(|| candidates.swap_remove(chosen)))
    }

    /// Answers `MGET` of more keys than one request may read, and writes values as they arrive. An
    /// error replaces only the value it belongs to.
    async fn values(&mut self, keys: &[Key]) -> Result<(), ()> {
        self.out.array(keys.len());
        for part in keys.chunks(MGET_PART_KEYS) {
            let read = Read::MultiGet(part.to_vec());
            match self.call_node(Call::Read(read, self.client.read_level)).await {
                Ok(reply) => self.write_values(reply, part.len()),
                Err(_) => {
                    // The values together may be too large, or one of them is unreadable: read each
                    // by itself.
                    for key in part {
                        let read = Read::Get(key.clone());
                        match self.call_node(Call::Read(read, self.client.read_level)).await {
                            Ok(reply) => self.write_values(reply, 1),
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

    /// Writes the values of this many keys. Without memory for them, writes an error for each,
    /// because the number of answers was sent already.
    fn write_values(&mut self, reply: Reply, keys: usize) {
        let reply = Ok(reply);
        if !self.fits(&reply) {
            return (0..keys).for_each(|_| self.fail(&overloaded()));
        }
        let rows = match reply.map(|reply| reply.body) {
            Ok(Body::Rows(rows)) => rows,
            Ok(Body::Row(row)) => vec![row],
            _ => Vec::new(),
        };
        let (shared, client, out) = (&*self.shared, &mut self.client, &mut self.out);
        let clock = self.registry.clock;
        let mut ctx = CommandContext { client, out, clock, shared, is_step: false, depth: 0 };
        for row in rows {
            RespShape::Value.encode(Ok(Body::Row(row)), &mut ctx);
        }
    }

    /// Sends the answer written so far, if it is large.
    async fn send_part(&mut self) -> Result<(), ()> {
        if self.out.len() < ANSWER_BYTES {
            return Ok(());
        }
        if self.client.replies != super::client::Replies::On {
            self.out.clear();
            self.answer_budget.release();
            return Ok(());
        }
        self.send().await
    }

    /// Returns the number of keys in the connection's bucket. `None`: the bucket keeps no count,
    /// and the store is too large for a scan.
    async fn count_keys(&mut self) -> Option<u64> {
        let node = &self.shared.node;
        if !node.has_count(&self.client.bucket)
            && node.status().store.rows_estimated > ROWS_COUNTED_MAX
        {
            return None;
        }
        let call = Call::Read(Read::KeyCount, ReadLevel::Dirty);
        match self.call_node(call).await.ok()?.body {
            Body::Count(keys) | Body::Size { keys, .. } => Some(keys),
            _ => None,
        }
    }

    async fn configuration(&mut self, globs: &[Glob]) {
        // A dropped bucket accepts no writes, so any policy is correct.
        let described = self.call_node(Call::Directory(DirectoryCall::DescribeBucket)).await;
        let sync = match described.map(|reply| reply.body) {
            Ok(Body::Buckets(buckets)) => buckets.first().map(|bucket| bucket.properties.sync),
            _ => None,
        };
        let mut matching =
            parameters(sync.unwrap_or(SyncPolicy::Sync), self.shared.live.resp_idle_ms_max())
                .to_vec();
        matching.retain(|(name, _)| globs.iter().any(|glob| glob.matches(name.as_bytes())));
        self.out.map(matching.len());
        for (name, text) in matching {
            self.out.text(name);
            self.out.text(text);
        }
    }

    fn list(&mut self, selection: &ClientSelection) {
        let is_listed = |id: u64| match selection {
            ClientSelection::All => true,
            ClientSelection::Empty => false,
            ClientSelection::Ids(ids) => ids.contains(&id),
            ClientSelection::Caller(caller) => *caller == id,
        };
        let now = self.registry.clock.unix_ms();
        let clients = self.registry.clients();
        let lines = clients
            .iter()
            .filter(|info| is_listed(info.id))
            .map(|info| client_list_line(info, now));
        self.out.verbatim(&lines.collect::<String>());
    }

    fn kill(&mut self, kill: &KillFilter) -> base::Result<()> {
        let clients = self.registry.clients();
        let matching: Vec<_> = clients.iter().filter(|info| kill.matches(info)).collect();
        matching.iter().for_each(|info| info.activity.end());
        match (kill.is_legacy_form, matching.is_empty()) {
            (true, true) => {
                self.refuse(&RespRefusal::new("ERR No such client"));
                return Err(Error::new(Reason::NotFound, "no such client"));
            }
            (true, false) => self.out.ok(),
            (false, _) => self.out.integer(matching.len() as i64),
        }
        Ok(())
    }

    fn role(&mut self) {
        let status = self.shared.node.status();
        let role = information::Role::new(&self.shared, &self.client, &status);
        match &role.master {
            None => {
                self.out.array(3);
                self.out.text(role.name());
                self.out.count(role.offset);
                self.out.array(0);
            }
            Some((host, port, connected)) => {
                self.out.array(5);
                self.out.text(role.name());
                self.out.text(host.clone());
                self.out.count(u64::from(*port));
                self.out.text(if *connected { "connected" } else { "connect" });
                self.out.count(role.offset);
            }
        }
    }
}

/// Returns a random key between two keys: their common prefix, then eight bytes drawn between the
/// next eight bytes of each, read as numbers.
fn random_key_between(low: &[u8], high: &[u8], random: u64) -> Key {
    let same = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = &key[same..(same + 8).min(key.len())];
        bytes[..rest.len()].copy_from_slice(rest);
        u64::from_be_bytes(bytes)
    };
    let (low_number, high_number) = (number(low), number(high));
    let span = high_number.saturating_sub(low_number).saturating_add(1);
    let drawn = low_number + random % span;
    [&low[..same], &drawn.to_be_bytes()].concat().into()
}

/// Spreads the entropy of a nanosecond count over all bits, by multiplying and folding.
fn mix_bits(random: u64) -> u64 {
    let bits = random.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let bits = (bits ^ bits >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits ^ bits >> 32
}

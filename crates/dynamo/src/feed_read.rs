//! Reads of the feed of an available bucket: a page of changes from one replica of each partition.
//!
//! `change_feed::VnodeReader` decides which nodes are asked and what becomes of the reader's place.
//! Here they are asked: first for bridges, where a slot leaves its node, then for their pages, all
//! at once. A node with a newer ring refuses; one that is lost, or has not built the feed, is left
//! out of the next round.
//!
//! Promises: from any token, what comes up to a level page has for each key the last change of the
//! replica that is read; a page is bounded in events and bytes; nothing is kept for readers.
//! Never: reads several replicas of a key: a change comes once the replica has it, by a write, a
//! hint or a repair.

use super::coverage_plans::CoverageNeeds;
use super::key_owners::{RingTarget, no_ring};
use super::key_request::{KeyRequest, unsupported};
use super::message::VnodeQuestion;
use super::vnode_ops::WritePolicy;
use crate::Available;
use base::error::corrupt;
use base::feed::{
    FeedEvent, FeedEventKind, FeedOrigin, FeedPage, FeedQuery, feed_building, feed_off,
    malformed_token,
};
use base::index::BuildProgress;
use base::limits::{
    FEED_PAGE_BYTES_MAX, FORWARD_MS_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, ROW_OVERHEAD_BYTES,
};
use base::reply::IndexRecord;
use base::{
    Body, BucketName, Error, FeedMode, FetchOptions, Key, Kind, LogIndex, NodeId, Properties,
    ReadLevel, Reason, Reply, Result, Siblings,
};
use bytes::Bytes;
use change_feed::{
    BridgeAnswer, FeedAsk, FeedMove, FeedPart, OwnedSlots, PageOutline, SlotSet, TokenForm,
    VnodePlace, VnodeReader, decode_token, encode_token,
};
use logic::ring::Ring;
use runtime::join_set::JoinSet;
use runtime::metrics::Metrics;
use runtime::world;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::feed_rows::{
    FeedAnswer, FeedQuestion, FeedSection, SectionEntry, VnodeFeedPage, VnodeFeedQuery,
};
use vnode_rows::layout::read_row;
use vnode_rows::slots::SlotSpan;

/// Pause before the next round if no newer ring is known here yet.
const RING_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of rounds of a page, while nodes fail and the ring changes.
const ROUNDS_MAX: usize = 12;
/// Maximum size of an encoded place in a token: its text has four thirds of that, and a checksum.
const PLACE_BYTES_MAX: usize = 6_000;

/// Query of the feed of an available bucket.
#[derive(Clone, Debug)]
pub struct FeedRead {
    /// The bucket.
    pub bucket: BucketName,
    /// Properties of the bucket.
    pub properties: Arc<Properties>,
    /// The query, as a client wrote it.
    pub query: FeedQuery,
    /// Level of the read: one replica answers in any case.
    pub level: ReadLevel,
}

/// Page in progress.
struct PageBuilder<'a> {
    available: &'a Arc<Available>,
    read: &'a FeedRead,
    reader: VnodeReader,
    /// True if the reader wants what comes from now on.
    is_from_now: bool,
    events: Vec<FeedEvent>,
    bytes: usize,
    /// Why the last node that failed in this round did.
    failure: Option<Error>,
    /// True if a page of this round did not end with its node's last entry: the place has moved on.
    has_more: bool,
}

impl FeedRead {
    /// Refuses what no page answers. Returns the place that it begins at, and true if that is the
    /// present end.
    fn start(&self) -> Result<(VnodePlace, bool)> {
        if matches!(self.level, ReadLevel::AtLeast(_)) {
            return Err(unsupported("read level at_least needs a log index, which there is none"));
        }
        if self.properties.feed == FeedMode::Off {
            return Err(feed_off(&self.bucket));
        }
        match &self.query.from {
            FeedOrigin::Start => Ok((VnodePlace::default(), false)),
            FeedOrigin::Now => Ok((VnodePlace::default(), true)),
            FeedOrigin::Token(text) => {
                let content = decode_token(&self.bucket, TokenForm::Available, text)?;
                Ok((VnodePlace::decode(&content).map_err(|_| malformed_token())?, false))
            }
        }
    }

    fn events_max(&self) -> usize {
        self.query.events_max.unwrap_or(PAGE_ROWS_DEFAULT).clamp(1, PAGE_ROWS_MAX)
    }
}

impl Available {
    /// Answers a query of a feed, without a wait for events. Errors: `feed_off`, `malformed_token`;
    /// `feed_building` if no owner of a partition has built it; `no_quorum` if none is reached.
    pub async fn read_feed(self: &Arc<Available>, read: FeedRead) -> Result<Reply> {
        let (place, is_from_now) = read.start()?;
        self.wait_until_warm(FORWARD_MS_MAX).await;
        let page = self.read_feed_page(&read, place, is_from_now).await?;
        if page.restart {
            Metrics::count(&self.metrics.feed_restarts);
        }
        Ok(Reply::new(LogIndex(0), Body::FeedPage(Box::new(page))))
    }

    async fn read_feed_page(
        self: &Arc<Available>,
        read: &FeedRead,
        place: VnodePlace,
        is_from_now: bool,
    ) -> Result<FeedPage> {
        let mut page = PageBuilder {
            available: self,
            read,
            reader: VnodeReader::new(place),
            is_from_now,
            events: Vec::new(),
            bytes: 0,
            failure: None,
            has_more: false,
        };
        for _ in 0..ROUNDS_MAX {
            page.take_round().await?;
            let is_full =
                page.events.len() >= read.events_max() || page.bytes >= FEED_PAGE_BYTES_MAX;
            if is_full || !page.reader.must_go_on() {
                break;
            }
        }
        match page.failure.take() {
            Some(error) if page.events.is_empty() && !page.has_more => Err(error),
            _ => page.finish(),
        }
    }
}

impl PageBuilder<'_> {
    /// Asks each source of the place for a page, and takes what they answer.
    async fn take_round(&mut self) -> Result<()> {
        (self.failure, self.has_more) = (None, false);
        let table = self.available.schema.owners().ok_or_else(no_ring)?;
        let epoch = table.ring().epoch();
        let owned = self.owned_slots(table.ring())?;
        let nodes = self.reader.nodes().into_iter();
        let reached = nodes.filter(|node| self.available.reaches(*node)).collect();
        let sources = self.reader.begin_round(&owned, &reached);
        let bridges = self.ask_for_bridges(epoch, &sources.moves).await;
        let round = self.reader.ask(sources, &bridges);
        if !round.unserved.is_empty() {
            self.failure.get_or_insert_with(|| no_owner(&round.unserved));
        }
        let left = self.read.events_max().saturating_sub(self.events.len());
        let entries_max = match self.is_from_now {
            true => 0,
            false => (left / round.asks.len().max(1)).max(1),
        };
        let (mut tasks, waiting) = (JoinSet::new(), round.asks.len());
        for ask in round.asks {
            tasks.push(self.ask(epoch, ask, entries_max));
        }
        for _ in 0..waiting {
            let (ask, answer) = tasks.next().await;
            match answer {
                Ok(FeedAnswer::Page(page)) => {
                    if !self.take_page(&ask, page).await? {
                        return Ok(());
                    }
                }
                Ok(FeedAnswer::Building(done, total)) => self.note_building(&ask, done, total),
                Ok(FeedAnswer::Absent) => self.note_building(&ask, 0, 0),
                Err(error) if error.reason == Reason::Changed => {
                    self.reader.take_failure(&ask, false);
                    self.failure = Some(Error { reason: Reason::MetadataChanged, ..error });
                }
                Err(error)
                    if ask.node != self.available.node && error.kind() == Kind::Unavailable =>
                {
                    self.reader.take_failure(&ask, true);
                    self.failure = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let reason = self.failure.as_ref().map(|error| error.reason);
        if reason == Some(Reason::MetadataChanged) && !self.available.has_newer_ring(epoch) {
            world::sleep(RING_PAUSE).await;
        }
        Ok(())
    }

    /// Returns the owners of all slots that can be asked, the one of the smallest cover first.
    fn owned_slots(&self, ring: &Ring) -> Result<Vec<OwnedSlots>> {
        let copies = usize::from(self.read.properties.replication.n_val);
        let needs = CoverageNeeds { copies, replicas: 1, use_fallbacks: false };
        let plan = self.available.coverage_plan(needs, self.reader.failed())?;
        let can_answer =
            |node: &NodeId| self.available.reaches(*node) && !self.reader.failed().contains(node);
        let mut groups: BTreeMap<Vec<NodeId>, SlotSet> = BTreeMap::new();
        for span in SlotSpan::all(ring) {
            let mut owners = ring.owners(span.partition, copies);
            owners.retain(can_answer);
            let is_first = |node: &NodeId| {
                let share = plan.shares().get(node);
                share.is_some_and(|share| share.contains(span.partition))
            };
            if let Some(at) = owners.iter().position(is_first) {
                owners[..=at].rotate_right(1);
            }
            let group = groups.entry(owners).or_default();
            span.slots().for_each(|slot| group.insert(slot));
        }
        let group = |(owners, slots)| OwnedSlots { slots, owners };
        Ok(groups.into_iter().map(group).collect())
    }

    /// Asks the candidates of all moves for bridges. One that does not answer has none.
    async fn ask_for_bridges(
        &self,
        epoch: u64,
        moves: &[FeedMove],
    ) -> Vec<(FeedMove, Vec<BridgeAnswer>)> {
        let mut bridged: Vec<_> = moves.iter().map(|it| (it.clone(), Vec::new())).collect();
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        for (number, moved) in moves.iter().enumerate().filter(|(_, it)| it.may_use_bridges()) {
            for node in moved.candidates.iter().copied() {
                let (available, bucket) = (self.available.clone(), self.read.bucket.clone());
                let (peer, position) = (moved.part.node, moved.part.place.covered);
                let slots = moved.part.slots;
                tasks.push(async move {
                    let question = FeedQuestion::Bridges { bucket, peer, position, slots };
                    let target = RingTarget { node, epoch };
                    (number, node, available.bridges_at(target, question).await)
                });
                waiting += 1;
            }
        }
        for _ in 0..waiting {
            let (number, node, bridges) = tasks.next().await;
            bridged[number].1.push((node, bridges.unwrap_or_default()));
        }
        bridged
    }

    fn ask(
        &self,
        epoch: u64,
        ask: FeedAsk,
        entries_max: usize,
    ) -> impl Future<Output = (FeedAsk, Result<FeedAnswer>)> + Send + use<> {
        let (available, bucket) = (self.available.clone(), self.read.bucket.clone());
        let section =
            |part: &FeedPart| FeedSection { position: part.place.position, slots: part.slots };
        let query = VnodeFeedQuery {
            sections: ask.parts.iter().map(section).collect(),
            entries_max,
            with_rows: self.read.query.values,
            of_former_owner: ask.of_former_owner,
        };
        async move {
            let answer = if ask.node == available.node {
                available.feed_page(epoch, bucket, query).await
            } else {
                let question = VnodeQuestion::Feed(FeedQuestion::Page(bucket, query)).write();
                let target = RingTarget { node: ask.node, epoch };
                let answer = available.ask_for_page(target, question).await;
                answer.and_then(|bytes| FeedAnswer::read(&bytes).map_err(corrupt))
            };
            (ask, answer)
        }
    }

    /// Takes a node's page, as far as the reader's page has space. Returns false if the reader has
    /// to start over.
    async fn take_page(&mut self, ask: &FeedAsk, mut page: VnodeFeedPage) -> Result<bool> {
        if self.is_from_now {
            self.reader.take_level(ask, page.level);
            return Ok(true);
        }
        let (left, mut bytes) = (self.read.events_max() - self.events.len(), self.bytes);
        // The event that reaches the bound is the last one.
        let fits = |entry: &&SectionEntry| {
            let is_below = bytes < FEED_PAGE_BYTES_MAX;
            bytes += event_bytes(entry);
            is_below
        };
        let count = page.entries.iter().take(left).take_while(fits).count();
        if count < page.entries.len() {
            page.entries.truncate(count);
            let Some(last) = page.entries.last() else {
                self.reader.postpone(ask);
                return Ok(true);
            };
            (page.end, page.is_level) = (last.position, false);
        }
        let VnodeFeedPage { entries, end, level, floor, joined, is_level } = page;
        self.has_more |= !is_level;
        if !self.reader.take_page(ask, PageOutline { end, level, floor, joined, is_level }) {
            (self.events, self.bytes) = (Vec::new(), 0);
            return Ok(false);
        }
        for entry in entries {
            self.push_event(ask, entry).await?;
        }
        Ok(true)
    }

    async fn push_event(&mut self, ask: &FeedAsk, entry: SectionEntry) -> Result<()> {
        self.bytes += event_bytes(&entry);
        let SectionEntry { position, slot, mut kind, key, row } = entry;
        let part = ask.parts.iter().find(|part| part.slots.contains(slot.0));
        let again = part.is_some_and(|part| part.place.may_repeat(position));
        let mut record = None;
        if kind == FeedEventKind::Put && self.read.query.values {
            let siblings = self.record(&key, row).await?;
            // A former owner can't tell whether the key lives elsewhere.
            let is_living = siblings.without_tombstones().next().is_some();
            match is_living {
                true => record = Some(IndexRecord::Siblings(siblings)),
                false => kind = FeedEventKind::Delete,
            }
        }
        self.events.push(FeedEvent { kind, key, version: None, record, again });
        Ok(())
    }

    /// Returns the record of a put. A node that has handed the row off, or reads it no more, does
    /// not have it: then the owners are asked.
    async fn record(&self, key: &Key, row: Option<Bytes>) -> Result<Siblings> {
        let FeedRead { bucket, properties, .. } = self.read;
        let request = KeyRequest { available: self.available, bucket, properties };
        let row = match row {
            Some(bytes) => {
                let policy = WritePolicy::from_properties(properties);
                policy.resolve(read_row(&bytes).map_err(corrupt)?)
            }
            None => request.fetch(key, &FetchOptions::default()).await?.unwrap_or_default(),
        };
        request.siblings(key, &row)
    }

    fn note_building(&mut self, ask: &FeedAsk, done: u32, total: u32) {
        let progress = BuildProgress { done: done.into(), total: total.into() };
        self.failure = Some(feed_building(&self.read.bucket, progress));
        self.reader.take_failure(ask, true);
    }

    fn finish(self) -> Result<FeedPage> {
        let content = self.reader.place().fit(PLACE_BYTES_MAX).encode();
        if content.len() > PLACE_BYTES_MAX {
            let text = "the feed is read at too many nodes for a token: it can't be read";
            return Err(Error::new(Reason::TooLarge, text));
        }
        let next = encode_token(&self.read.bucket, TokenForm::Available, &content);
        let (level, restart) = (self.reader.is_level(), self.reader.is_restarted());
        Ok(FeedPage { events: self.events, next, level, restart })
    }
}

fn event_bytes(entry: &SectionEntry) -> usize {
    entry.key.len() + entry.row.as_ref().map_or(0, Bytes::len) + ROW_OVERHEAD_BYTES
}

fn no_owner(slots: &SlotSet) -> Error {
    let text = format!(
        "no owner of {} of 1,024 parts of the ring can be asked: start the nodes that are down",
        slots.len()
    );
    Error::new(Reason::NoQuorum, text)
}

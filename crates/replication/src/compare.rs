//! Comparison of a group's replicas, at its master: it digests its rows piece by piece, and
//! requests the digests of the same ranges from the other replicas.

use super::group::Group;
use super::seals::BOOKKEEPING_BUCKET;
use base::codec::Malformed;
use base::range::prefix_end;
use base::{BucketId, Error, GroupId, LogIndex, NodeId, Part, Reason, Result};
use bytes::Bytes;
use replica_state::comparison::message::{ComparisonAnswer, ComparisonQuestion, Sum};
use replica_state::comparison::{
    ComparisonReport, DIFFERENCES_MAX, Difference, digest_piece, marker_key, read_keys, read_marker,
};
use replica_state::layout::{self, BUCKET_SPACES, Space};
use runtime::round::{progress, rest};
use runtime::submit::Ticket;
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use transport::Peers;

/// Bytes of the master's rows in one question.
const PIECE_BYTES: u64 = 256 * 1024;
/// Maximum age of a snapshot that is compared, in milliseconds.
const ROUND_MS: u64 = 10_000;
/// Maximum wait for a replica that has not reached the marker, in milliseconds.
const LAG_MS: u64 = 5_000;
const LAG_PAUSE: Duration = Duration::from_millis(20);
/// Timeout of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts to place a marker whose snapshot could not be opened here.
const ROUNDS_MAX: u32 = 5;

/// One pass over a group.
pub struct GroupComparison<'a> {
    /// Group that is compared.
    pub group: &'a Arc<Group>,
    /// Connections to the other replicas. `None`: the node has no peers.
    pub peers: Option<&'a Peers>,
    /// Rate of reading, in bytes a second, here and at each other replica.
    pub rate: u64,
    /// Buckets of the group that are in force.
    pub live_buckets: &'a (dyn Fn() -> BTreeSet<BucketId> + Send + Sync),
    /// Describes a difference, for the log.
    pub describe: &'a (dyn Fn(&Difference) -> String + Send + Sync),
}

impl Group {
    /// Writes a marker into the open entry: all replicas compare their state as of that entry.
    pub(super) fn propose_marker(&self, round: u64) -> Result<Ticket> {
        let mut guard = self.state();
        let state = &mut *guard;
        self.admit(state)?;
        let (is_first, _) = state.queue.begin(&state.replica);
        let mut key = Vec::new();
        marker_key(self.id, &mut key);
        state.queue.overlay(&*self.shared.trees).open.put_raw(&key, &round.to_le_bytes());
        Ok(self.add_update(state, is_first, true))
    }

    /// Opens a snapshot for a marker that was just applied.
    pub(super) fn open_marked_snapshot(&self, round: &Bytes) {
        match read_marker(round) {
            Ok(round) => self.shared.comparisons.open(self.id, round),
            Err(Malformed(field)) => {
                tracing::warn!(target: "consensus", group = self.id.0, "a marker's {field}");
            }
        }
    }
}

/// A marker, and the replicas that are compared as of its entry.
struct Round {
    number: u64,
    index: LogIndex,
    begun_ms: u64,
    /// Replicas that have answered every request so far.
    replicas: BTreeSet<NodeId>,
}

/// Consecutive tree keys, all of one bucket, or of none.
struct KeySpan {
    low: Bytes,
    high: Bytes,
    bucket: Option<BucketId>,
}

impl GroupComparison<'_> {
    /// Compares all rows, from the first to the last.
    pub async fn run(&self) -> Result<()> {
        let comparisons = &self.group.shared.comparisons;
        comparisons.note(self.group.id, ComparisonReport::begin);
        let done = self.spans().await;
        comparisons.note(self.group.id, |report| match &done {
            Ok(()) => report.end(),
            Err(error) => report.fail(error),
        });
        done
    }

    async fn spans(&self) -> Result<()> {
        let mut round = self.begin().await?;
        for span in spans(self.group.id, &(self.live_buckets)()) {
            let mut low = span.low.clone();
            while low < span.high {
                if world::milliseconds() > round.begun_ms + ROUND_MS {
                    self.group.shared.comparisons.close(self.group.id, round.number);
                    round = self.begin().await?;
                }
                match self.step(&mut round, &span, &low).await? {
                    Some(next) => low = next,
                    None => round = self.begin().await?,
                }
            }
        }
        self.group.shared.comparisons.close(self.group.id, round.number);
        Ok(())
    }

    async fn begin(&self) -> Result<Round> {
        let group = self.group;
        for _ in 0..ROUNDS_MAX {
            let number = world::random_u64();
            let ticket = group.propose_marker(number)?;
            group.wait_applied(ticket).await?;
            let comparisons = &group.shared.comparisons;
            // Too many snapshots were open when the marker was applied here (`OPEN_MAX`).
            if comparisons.read(group.id, number, |_| Ok(())).await?.is_none() {
                sleep(Duration::from_secs(1)).await;
                continue;
            }
            let is_connected = |node: NodeId| self.peers.is_some_and(|peers| peers.is_linked(node));
            let configuration = group.configuration();
            let replicas = configuration.members().iter().filter(|member| {
                let is_other = member.node != group.shared.node && member.part != Part::Witness;
                is_other && is_connected(member.node)
            });
            let replicas = replicas.map(|member| member.node).collect();
            let begun_ms = world::milliseconds();
            return Ok(Round { number, index: ticket.index, begun_ms, replicas });
        }
        let text = "too many groups are being compared: try again";
        Err(Error::new(Reason::Overloaded, text))
    }

    /// Compares one piece. Returns the start of the next one. `None`: the snapshot was closed.
    async fn step(&self, round: &mut Round, span: &KeySpan, low: &Bytes) -> Result<Option<Bytes>> {
        progress();
        let (group, comparisons) = (self.group, &self.group.shared.comparisons);
        let (start, high) = (low.clone(), span.high.clone());
        let read = comparisons.read(group.id, round.number, move |snapshot| {
            digest_piece(snapshot, &start, &high, PIECE_BYTES)
        });
        let Some((own_sum, next)) = read.await? else { return Ok(None) };
        let peer_sums = self.request_sums(round, low, &next).await;
        let differs = peer_sums.values().any(|sum| *sum != own_sum);
        if differs && let Some(difference) = self.bisect(round, low, &next).await? {
            let bucket = span.bucket.filter(|bucket| bucket.0 != 0);
            // Each node removes a bucket that was dropped meanwhile at a time of its own.
            if bucket.is_none_or(|bucket| (self.live_buckets)().contains(&bucket)) {
                self.report_difference(difference);
            }
        }
        comparisons.note(group.id, |report| {
            report.rows += own_sum.rows;
            report.bytes += own_sum.bytes;
            for node in peer_sums.keys() {
                *report.compared.entry(*node).or_default() += own_sum.rows;
            }
        });
        let pause_ms = (own_sum.bytes * 1_000).checked_div(self.rate).unwrap_or_default();
        if pause_ms > 0 {
            // However low the rate is set: no work is under way.
            rest(sleep(Duration::from_millis(pause_ms))).await;
        }
        Ok(Some(next))
    }

    fn report_difference(&self, difference: Difference) {
        let (group, comparisons) = (self.group, &self.group.shared.comparisons);
        let words = (self.describe)(&difference);
        if comparisons.note(group.id, |report| report.add(difference)) {
            tracing::error!(target: "consensus", group = group.id.0, "replicas differ: {words}");
        } else {
            tracing::error!(
                target: "consensus", group = group.id.0,
                "replicas differ in more than {DIFFERENCES_MAX} key ranges"
            );
        }
    }

    /// Requests the digest of a range from the other replicas. A replica that returns none is
    /// excluded for the rest of the round.
    async fn request_sums(
        &self,
        round: &mut Round,
        low: &Bytes,
        high: &Bytes,
    ) -> BTreeMap<NodeId, Sum> {
        let Some(peers) = self.peers else { return BTreeMap::new() };
        let (number, index) = (round.number, round.index);
        let question =
            ComparisonQuestion { round: number, index, low: low.clone(), high: high.clone() };
        let (question, group) = (question.write(), self.group.id);
        let mut requests = JoinSet::new();
        for node in round.replicas.iter().copied() {
            let (peers, question) = (peers.clone(), question.clone());
            requests.spawn(async move {
                let deadline_ms = world::milliseconds() + LAG_MS;
                loop {
                    let answer =
                        peers.call(node, group, question.clone(), ANSWER_TIMEOUT).await.ok();
                    match answer.and_then(|answer| ComparisonAnswer::read(&answer).ok()) {
                        Some(ComparisonAnswer::Sum(sum)) => return (node, Some(sum)),
                        // It has not applied the marker: lag is no difference.
                        Some(ComparisonAnswer::NotYet) if world::milliseconds() < deadline_ms => {}
                        _ => return (node, None),
                    }
                    sleep(LAG_PAUSE).await;
                }
            });
        }
        let mut sums = BTreeMap::new();
        while let Some(Ok((node, sum))) = requests.join_next().await {
            sums.extend(sum.map(|sum| (node, sum)));
        }
        round.replicas.retain(|node| sums.contains_key(node));
        sums
    }

    /// Bisects a range that differs until it holds one row of this replica at most.
    async fn bisect(
        &self,
        round: &mut Round,
        low: &Bytes,
        high: &Bytes,
    ) -> Result<Option<Difference>> {
        let (group, comparisons) = (self.group, &self.group.shared.comparisons);
        let (start, end) = (low.clone(), high.clone());
        let all = comparisons
            .read(group.id, round.number, move |snapshot| read_keys(snapshot, &start, &end));
        let Some(mut bounds) = all.await? else { return Ok(None) };
        // Rows that only another replica holds may lie before the first own row.
        if bounds.first() != Some(low) {
            bounds.insert(0, low.clone());
        }
        bounds.push(high.clone());
        let (mut first, mut last) = (0, bounds.len() - 1);
        // Invariant: `first..last` differs. If one half is equal, the other differs.
        while last - first > 1 {
            let middle = first.midpoint(last);
            match self.gather(round, &bounds[first], &bounds[middle]).await? {
                None => return Ok(None),
                Some((_, count)) if count > 1 => last = middle,
                Some(_) => first = middle,
            }
        }
        let (low, high) = (bounds[first].clone(), bounds[last].clone());
        let Some((sums, count)) = self.gather(round, &low, &high).await? else { return Ok(None) };
        if count < 2 {
            return Ok(None); // The replicas that differed no longer answer.
        }
        let mut agreeing: BTreeMap<Sum, BTreeSet<NodeId>> = BTreeMap::new();
        for (node, sum) in sums {
            agreeing.entry(sum).or_default().insert(node);
        }
        let mut agreeing: Vec<_> = agreeing.into_values().collect();
        agreeing.sort_by_key(|camp| (std::cmp::Reverse(camp.len()), camp.first().copied()));
        Ok(Some(Difference { low, high, agreeing }))
    }

    /// Returns every replica's digest of a range, and the number of distinct digests. `None`: the
    /// snapshot of this node was closed.
    async fn gather(
        &self,
        round: &mut Round,
        low: &Bytes,
        high: &Bytes,
    ) -> Result<Option<(BTreeMap<NodeId, Sum>, usize)>> {
        let (group, comparisons) = (self.group, &self.group.shared.comparisons);
        let (start, end) = (low.clone(), high.clone());
        let read = comparisons.read(group.id, round.number, move |snapshot| {
            digest_piece(snapshot, &start, &end, u64::MAX)
        });
        let Some((own_sum, _)) = read.await? else { return Ok(None) };
        let mut sums = self.request_sums(round, low, high).await;
        sums.insert(group.shared.node, own_sum);
        let distinct: BTreeSet<_> = sums.values().copied().collect();
        let count = distinct.len();
        Ok(Some((sums, count)))
    }
}

/// Returns all tree keys of a group, except those of buckets that are not in force.
fn spans(group: GroupId, live: &BTreeSet<BucketId>) -> Vec<KeySpan> {
    let space_start = |space| {
        let mut key = Vec::new();
        layout::space_key(group, space, &mut key);
        Bytes::from(key)
    };
    let end_of = |prefix: &[u8]| Bytes::from(prefix_end(prefix).expect("no space is 0xFF"));
    let mut spans = Vec::new();
    let mut low = space_start(Space::Mark);
    for space in BUCKET_SPACES {
        let start = space_start(space);
        let end = end_of(&start);
        spans.push(KeySpan { low, high: start, bucket: None });
        // Bucket 0 holds the database's own rows, and always exists.
        let others = live.iter().copied().filter(|bucket| *bucket != BOOKKEEPING_BUCKET);
        spans.extend(std::iter::once(BOOKKEEPING_BUCKET).chain(others).map(|bucket| {
            let mut prefix = Vec::new();
            layout::bucket_key(group, space, bucket, &[], &mut prefix);
            let high = end_of(&prefix);
            KeySpan { low: prefix.into(), high, bucket: Some(bucket) }
        }));
        low = end;
    }
    let end = match group.0.checked_add(1) {
        Some(next) => Bytes::copy_from_slice(&next.to_be_bytes()),
        None => Bytes::from_static(&[0xff; 5]),
    };
    spans.push(KeySpan { low, high: end, bucket: None });
    spans.retain(|span| span.low < span.high);
    spans
}

#[cfg(test)]
mod tests;

//! Comparison of a group's replicas, at its master: it goes over its rows piece by piece, and asks
//! the others for the same.

use super::comparison::message::{ComparisonAnswer, ComparisonQuestion, Sum};
use super::comparison::{
    ComparisonReport, DIFFERENCES_MAX, Difference, keys, marker_key, piece, read_marker,
};
use super::group::Group;
use super::layout::{self, Space};
use super::seals::OWN;
use base::codec::Malformed;
use base::{BucketId, Error, LogIndex, NodeId, Part, Reason, Result};
use bytes::Bytes;
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
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Attempts to place a marker whose snapshot could not be opened here.
const ROUNDS_MAX: u32 = 5;

/// One pass over a group.
pub struct Comparing<'a> {
    /// Group that is compared.
    pub group: &'a Arc<Group>,
    /// Connections to the other replicas; none: the node is alone.
    pub peers: Option<&'a Peers>,
    /// Bytes a second that are read here, and as many at each other replica.
    pub rate: u64,
    /// The buckets of the group that are in force.
    pub live: &'a (dyn Fn() -> BTreeSet<BucketId> + Send + Sync),
    /// Describes a difference, for the log.
    pub words: &'a (dyn Fn(&Difference) -> String + Send + Sync),
}

impl Group {
    /// Lays a marker out: all replicas look at the state behind the entry it stands in.
    pub(super) fn lay_out_marker(&self, round: u64) -> Result<Ticket> {
        let mut guard = self.state();
        let state = &mut *guard;
        self.admit(state)?;
        let (before, _) = state.queue.begin(&state.replica);
        let mut key = Vec::new();
        marker_key(self.id, &mut key);
        state.queue.overlay(&*self.shared.trees).open.put_raw(&key, &round.to_le_bytes());
        Ok(self.take(state, before, true))
    }

    /// Opens a snapshot for a marker that was just applied.
    pub(super) fn marked(&self, round: &Bytes) {
        match read_marker(round) {
            Ok(round) => self.shared.comparisons.open(self.id, round),
            Err(Malformed(field)) => {
                tracing::warn!(target: "consensus", group = self.id.0, "a marker's {field}");
            }
        }
    }
}

/// A marker that all have applied, or will.
struct Round {
    number: u64,
    index: LogIndex,
    begun_ms: u64,
    /// Replicas that still answer.
    others: BTreeSet<NodeId>,
}

/// Some tree keys in a row, all of one bucket, or of none.
struct KeySpan {
    low: Bytes,
    high: Bytes,
    bucket: Option<BucketId>,
}

impl Comparing<'_> {
    /// Compares all rows, from the first to the last.
    pub async fn pass(&self) -> Result<()> {
        let comparisons = &self.group.shared.comparisons;
        comparisons.note(self.group.id, ComparisonReport::begin);
        let done = self.spans().await;
        comparisons.note(self.group.id, |report| match &done {
            Ok(()) => report.end(),
            Err(error) => report.broken(error),
        });
        done
    }

    async fn spans(&self) -> Result<()> {
        let mut round = self.begin().await?;
        for span in spans(self.group, &(self.live)()) {
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
            let number = world::chance();
            let ticket = group.lay_out_marker(number)?;
            group.settled(ticket).await?;
            let comparisons = &group.shared.comparisons;
            // No place was free for the snapshot when the marker was applied here (`OPEN_MAX`).
            if comparisons.read(group.id, number, |_| Ok(())).await?.is_none() {
                sleep(Duration::from_secs(1)).await;
                continue;
            }
            let here = |node: NodeId| self.peers.is_some_and(|peers| peers.linked(node));
            let configuration = group.configuration();
            let others = configuration.members().iter().filter(|member| {
                let is_other = member.node != group.shared.node && member.part != Part::Witness;
                is_other && here(member.node)
            });
            let others = others.map(|member| member.node).collect();
            let begun_ms = world::milliseconds();
            return Ok(Round { number, index: ticket.index, begun_ms, others });
        }
        let text = "too many groups are compared at the same time: try again";
        Err(Error::new(Reason::Overloaded, text))
    }

    /// Compares one piece. Gives where the next one begins; none: the snapshot is gone.
    async fn step(&self, round: &mut Round, span: &KeySpan, low: &Bytes) -> Result<Option<Bytes>> {
        let (group, comparisons) = (self.group, &self.group.shared.comparisons);
        let (from, high) = (low.clone(), span.high.clone());
        let read = comparisons.read(group.id, round.number, move |snapshot| {
            piece(snapshot, &from, &high, PIECE_BYTES)
        });
        let Some((ours, next)) = read.await? else { return Ok(None) };
        let theirs = self.ask(round, low, &next).await;
        let unlike = theirs.values().any(|sum| *sum != ours);
        if unlike && let Some(difference) = self.narrow(round, low, &next).await? {
            let bucket = span.bucket.filter(|bucket| bucket.0 != 0);
            // A bucket that was dropped meanwhile goes when each node sees fit.
            if bucket.is_none_or(|bucket| (self.live)().contains(&bucket)) {
                self.tell(difference);
            }
        }
        comparisons.note(group.id, |report| {
            report.rows += ours.rows;
            report.bytes += ours.bytes;
            for node in theirs.keys() {
                *report.compared.entry(*node).or_default() += ours.rows;
            }
        });
        let pause_ms = (ours.bytes * 1_000).checked_div(self.rate).unwrap_or_default();
        if pause_ms > 0 {
            sleep(Duration::from_millis(pause_ms)).await;
        }
        Ok(Some(next))
    }

    fn tell(&self, difference: Difference) {
        let (group, comparisons) = (self.group, &self.group.shared.comparisons);
        let words = (self.words)(&difference);
        if comparisons.note(group.id, |report| report.found(difference)) {
            tracing::error!(target: "consensus", group = group.id.0, "replicas differ: {words}");
        } else {
            tracing::error!(
                target: "consensus", group = group.id.0, "replicas differ in more than \
                 {DIFFERENCES_MAX} places"
            );
        }
    }

    /// Asks the other replicas for their digest of a range. A replica that gives none is left out
    /// for the rest of the round.
    async fn ask(&self, round: &mut Round, low: &Bytes, high: &Bytes) -> BTreeMap<NodeId, Sum> {
        let Some(peers) = self.peers else { return BTreeMap::new() };
        let (number, index) = (round.number, round.index);
        let question =
            ComparisonQuestion { round: number, index, low: low.clone(), high: high.clone() };
        let (question, group) = (question.write(), self.group.id);
        let mut asking = JoinSet::new();
        for node in round.others.iter().copied() {
            let (peers, question) = (peers.clone(), question.clone());
            asking.spawn(async move {
                let until = world::milliseconds() + LAG_MS;
                loop {
                    let answer = peers.ask(node, group, question.clone(), ANSWER_MAX).await.ok();
                    match answer.and_then(|answer| ComparisonAnswer::read(&answer).ok()) {
                        Some(ComparisonAnswer::Sum(sum)) => return (node, Some(sum)),
                        // It has not applied the marker: it lags, which is no difference.
                        Some(ComparisonAnswer::NotYet) if world::milliseconds() < until => {}
                        _ => return (node, None),
                    }
                    sleep(LAG_PAUSE).await;
                }
            });
        }
        let mut sums = BTreeMap::new();
        while let Some(Ok((node, sum))) = asking.join_next().await {
            sums.extend(sum.map(|sum| (node, sum)));
        }
        round.others.retain(|node| sums.contains_key(node));
        sums
    }

    /// Halves a range that differs until it holds one row of this replica's at most.
    async fn narrow(
        &self,
        round: &mut Round,
        low: &Bytes,
        high: &Bytes,
    ) -> Result<Option<Difference>> {
        let (group, comparisons) = (self.group, &self.group.shared.comparisons);
        let (from, upto) = (low.clone(), high.clone());
        let all =
            comparisons.read(group.id, round.number, move |snapshot| keys(snapshot, &from, &upto));
        let Some(mut bounds) = all.await? else { return Ok(None) };
        // Rows that only another replica has may lie before the first own row.
        if bounds.first() != Some(low) {
            bounds.insert(0, low.clone());
        }
        bounds.push(high.clone());
        let (mut first, mut last) = (0, bounds.len() - 1);
        // `first..last` differs in every round: if one half of it is alike, the other is not.
        while last - first > 1 {
            let middle = first.midpoint(last);
            match self.differ(round, &bounds[first], &bounds[middle]).await? {
                None => return Ok(None),
                Some((_, camps)) if camps > 1 => last = middle,
                Some(_) => first = middle,
            }
        }
        let (low, high) = (bounds[first].clone(), bounds[last].clone());
        let Some((sums, camps)) = self.differ(round, &low, &high).await? else { return Ok(None) };
        if camps < 2 {
            return Ok(None); // Those that differed do not answer any more.
        }
        let mut camps: BTreeMap<Sum, BTreeSet<NodeId>> = BTreeMap::new();
        for (node, sum) in sums {
            camps.entry(sum).or_default().insert(node);
        }
        let mut camps: Vec<_> = camps.into_values().collect();
        camps.sort_by_key(|camp| (std::cmp::Reverse(camp.len()), camp.first().copied()));
        Ok(Some(Difference { low, high, camps }))
    }

    /// Returns every replica's digest of a range, and the number of different digests. `None`: the
    /// snapshot of this node is gone.
    async fn differ(
        &self,
        round: &mut Round,
        low: &Bytes,
        high: &Bytes,
    ) -> Result<Option<(BTreeMap<NodeId, Sum>, usize)>> {
        let (group, comparisons) = (self.group, &self.group.shared.comparisons);
        let (from, upto) = (low.clone(), high.clone());
        let read = comparisons
            .read(group.id, round.number, move |snapshot| piece(snapshot, &from, &upto, u64::MAX));
        let Some((ours, _)) = read.await? else { return Ok(None) };
        let mut sums = self.ask(round, low, high).await;
        sums.insert(group.shared.node, ours);
        let different: BTreeSet<_> = sums.values().copied().collect();
        let count = different.len();
        Ok(Some((sums, count)))
    }
}

/// All of a group's tree keys but those of rows of buckets that are not in force.
fn spans(group: &Group, live: &BTreeSet<BucketId>) -> Vec<KeySpan> {
    let space = |which| {
        let mut key = Vec::new();
        layout::space_key(group.id, which, &mut key);
        Bytes::from(key)
    };
    let row = |bucket| {
        let mut key = Vec::new();
        layout::row_key(group.id, bucket, &[], &mut key);
        Bytes::from(key)
    };
    let mut spans =
        vec![KeySpan { low: space(Space::Mark), high: space(Space::Row), bucket: None }];
    // Bucket 0 holds the database's own rows, and is always there.
    for bucket in std::iter::once(OWN).chain(live.iter().copied().filter(|bucket| *bucket != OWN)) {
        let high = match bucket.0.checked_add(1) {
            Some(next) => row(BucketId(next)),
            None => space(Space::Expiry),
        };
        spans.push(KeySpan { low: row(bucket), high, bucket: Some(bucket) });
    }
    let end = match group.id.0.checked_add(1) {
        Some(next) => Bytes::copy_from_slice(&next.to_be_bytes()),
        None => Bytes::from_static(&[0xff; 5]),
    };
    spans.push(KeySpan { low: space(Space::Expiry), high: end, bucket: None });
    spans
}

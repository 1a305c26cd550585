//! Samples of feeds, of those in the groups that a node leads and of those of its vnodes, and of
//! the pace of builds.

use crate::groups::Groups;
use base::GroupId;
use change_feed::FeedTotals;
use dynamo::Available;
use replica_state::feed::{FeedExtent, feed_extent};
use replication::group::Group;
use runtime::metrics::Metrics;
use runtime::sample::{Sample, SampleKind};
use runtime::world;
use std::sync::atomic::Ordering;
use vnode_rows::feed_rows::VnodeFeedExtent;

/// Maximum number of a group's feeds that are read for samples; others are left out.
const FEEDS_READ_MAX: usize = 1_000;

/// Returns the samples: figures of the node, gauges of each group that it leads, and gauges of its
/// vnodes.
pub fn feed_samples(groups: &Groups, available: &Available, metrics: &Metrics) -> Vec<Sample> {
    let counter = |name, help, value| Sample {
        name,
        help,
        kind: SampleKind::Counter,
        labels: Vec::new(),
        value,
    };
    let removed = metrics.feed_entries_removed.load(Ordering::Relaxed) as f64;
    let restarts = metrics.feed_restarts.load(Ordering::Relaxed) as f64;
    let mut samples = vec![
        counter(
            "credenza_feed_entries_removed_total",
            "Old entries that were removed from feeds.",
            removed,
        ),
        counter(
            "credenza_feed_restarts_total",
            "Pages that began again because their readers were away for too long.",
            restarts,
        ),
    ];
    let groups = groups.all();
    let pace = groups.first().and_then(|group| group.shared.build_pacer.bytes_per_second());
    samples.push(Sample {
        name: "credenza_build_bytes_per_second",
        help: "Pace of builds of indexes and feeds of consistent buckets; 0: none runs.",
        kind: SampleKind::Gauge,
        labels: Vec::new(),
        value: pace.unwrap_or(0) as f64,
    });
    for group in groups {
        if group.id != GroupId::DIRECTORY && group.leadership.is_master() {
            samples.extend(group_samples(&group));
        }
    }
    samples.extend(vnode_samples(available));
    samples
}

/// Returns the gauges of the feeds of all available buckets on this node.
fn vnode_samples(available: &Available) -> Vec<Sample> {
    let VnodeFeedExtent { totals, oldest_ms } = available.vnode_store.feed_extent();
    if totals == FeedTotals::default() {
        return Vec::new();
    }
    let oldest_ms = oldest_ms.map_or(0, |time| world::unix_ms().saturating_sub(time));
    let label = ("consistency", "available".to_string());
    gauges(label, (totals.entries, totals.bytes, oldest_ms)).collect()
}

fn group_samples(group: &Group) -> Vec<Sample> {
    let feeds = group.feeds.buckets();
    if feeds.is_empty() {
        return Vec::new();
    }
    let snapshot = group.shared.trees.snapshot();
    let now = group.applied.time();
    let (mut entries, mut bytes, mut oldest_ms) = (0, 0, 0);
    for bucket in feeds.into_iter().take(FEEDS_READ_MAX) {
        // A row that can't be read is reported by who needs it.
        let extent = feed_extent(&*snapshot, (group.id, bucket)).unwrap_or_default();
        let FeedExtent { entries: more, bytes: more_bytes, oldest_time } = extent;
        entries += more;
        bytes += more_bytes;
        oldest_ms = oldest_ms.max(oldest_time.map_or(0, |time| now.saturating_sub(time)));
    }
    gauges(("group", group.id.to_string()), (entries, bytes, oldest_ms)).collect()
}

/// Returns the gauges of feeds with a label. Arguments: entries, bytes, age in milliseconds.
fn gauges(
    label: (&'static str, String),
    (entries, bytes, oldest_ms): (u64, u64, u64),
) -> impl Iterator<Item = Sample> {
    [
        ("credenza_feed_entries", "Entries of feeds.", entries as f64),
        ("credenza_feed_bytes", "Size of the entries of feeds.", bytes as f64),
        (
            "credenza_feed_oldest_seconds",
            "Age of the oldest entry of a feed that is kept for its age.",
            oldest_ms as f64 / 1e3,
        ),
    ]
    .into_iter()
    .map(move |(name, help, value)| {
        let labels = vec![label.clone()];
        Sample { name, help, kind: SampleKind::Gauge, labels, value }
    })
}

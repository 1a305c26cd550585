//! Space of a dropped bucket at a follower that lags: it is freed only after every update of the
//! bucket that is still to come. Freed sooner, those would bring rows that nobody removes.

use super::flavours::Flavour;
use super::installing::Roles;
use super::node::{LEASE_MS, group_id};
use super::world::World;
use base::request::Expiry;
use base::{BucketId, LogIndex, Properties, Update};
use bytes::Bytes;
use replica_host::dropped_bucket::DroppedBucket;
use replica_host::flush::drop_bucket;
use replica_state::layout;
use replication::bucket::Bucket;
use store::{Chunk, Trees};

/// Number of rows of the bucket.
const ROWS: usize = 20;
/// Time for which the follower lags behind the drop, in microseconds: longer than the pause after
/// which a node that is not master frees the space.
const LAGS_US: u64 = 9_000_000;
/// Time limit for the follower to catch up, in microseconds.
const LEVEL_US: u64 = 60_000_000;
/// Interval of maintenance, in microseconds.
const ROUND_US: u64 = 100_000;

/// Bucket that is dropped. Clients of the histories use another one.
fn bucket() -> Bucket {
    Bucket::new(BucketId(10), group_id(0), Properties::default())
}

impl World {
    /// Writes the rows of the bucket at the master, and waits until it has applied them. Returns
    /// the index of the last one.
    fn fill_bucket(&mut self, master: usize) -> LogIndex {
        self.nodes[master].clock.enter(self.queue.now());
        let group = self.process(master).expect("it lives").group(0);
        let mut last = LogIndex(0);
        for number in 0..ROWS {
            let key = Bytes::from(format!("row{number}"));
            let update = Update::Set { key: key.clone(), value: key, expiry: Expiry::Default };
            let (ticket, _, outcome) = group.submit(&bucket(), &update, None).expect("it leads");
            outcome.expect("a set is never refused by what it finds");
            last = ticket.expect("a set is a value").index;
        }
        self.wake(master, 0);
        self.run_until("the rows", |world| world.applied_at(master) >= last);
        last
    }

    fn applied_at(&self, nth: usize) -> LogIndex {
        self.process(nth).expect("it lives").applied(0)
    }

    /// Returns the number of the bucket's rows in a node's store.
    fn bucket_rows(&self, nth: usize) -> usize {
        let [prefix, ..] = layout::bucket_prefixes(group_id(0), bucket().id);
        let trees = &self.nodes[nth].trees;
        Chunk::read(&*trees.snapshot(), &prefix, None, usize::MAX).expect("memory").rows.len()
    }

    /// Notes that a node learns now that the bucket is dropped.
    fn learn_of_drop(&self, nth: usize) -> DroppedBucket {
        self.nodes[nth].clock.enter(self.queue.now());
        let now = runtime::world::milliseconds();
        DroppedBucket::new(now, group_id(0), LogIndex(0), LEASE_MS)
    }

    /// Frees the bucket's space at a node if it may be freed, as maintenance does. Returns true if
    /// it is freed.
    fn reclaim(&mut self, nth: usize, dropped: &mut DroppedBucket) -> bool {
        self.nodes[nth].clock.enter(self.queue.now());
        let progress = self.process(nth).expect("it lives").group(0).apply_progress();
        let may_free = dropped.is_applied(&progress, runtime::world::milliseconds());
        if may_free {
            drop_bucket(&*self.nodes[nth].trees, group_id(0), bucket().id).expect("memory");
        }
        may_free
    }

    /// Runs rounds of maintenance at a node for this time, or until the space is freed. Returns
    /// true if it is freed.
    fn maintain(&mut self, nth: usize, dropped: &mut DroppedBucket, time_us: u64) -> bool {
        let end = self.queue.now() + time_us;
        let mut is_freed = false;
        while !is_freed && self.queue.now() < end {
            self.run(ROUND_US);
            is_freed = self.reclaim(nth, dropped);
        }
        is_freed
    }

    /// Lets a follower that has caught up free the space, and asserts that no row comes back.
    fn assert_freed_for_good(&mut self, Roles { master, lagging, .. }: Roles, last: LogIndex) {
        self.run_until("the follower", |world| world.applied_at(lagging) >= last);
        self.run(1_000_000);
        assert_eq!(self.bucket_rows(lagging), 0, "rows came back that nobody removes");
        assert_eq!(self.bucket_rows(master), ROWS, "they were written");
        runtime::world::set_time(None);
    }
}

/// The follower's disk hangs: it hears its master and what is decided, and can't save the entries.
#[test]
fn dropped_bucket_of_a_follower_with_a_hung_disk_is_freed_once_it_caught_up() {
    for mut world in World::quiet(Flavour::Usual) {
        let roles = world.begin_quiet();
        let lagging = roles.lagging;
        world.nodes[lagging].hangs_until = world.queue.now() + LAGS_US;
        let last = world.fill_bucket(roles.master);
        let mut dropped = world.learn_of_drop(lagging);
        let time_us = world.nodes[lagging].hangs_until - world.queue.now();
        let is_freed_early = world.maintain(lagging, &mut dropped, time_us - ROUND_US);
        assert!(world.applied_at(lagging) < last, "it lags");
        let is_freed = is_freed_early || world.maintain(lagging, &mut dropped, LEVEL_US);
        assert!(is_freed, "it has caught up");
        world.assert_freed_for_good(roles, last);
        assert!(!is_freed_early, "freed while updates were still to come");
    }
}

/// The follower lacks what no log has any more, and gets the rows of the bucket with a snapshot.
/// They are in its store before the snapshot counts as applied.
#[test]
fn dropped_bucket_of_a_follower_that_installs_a_snapshot_is_freed_after_it() {
    for mut world in World::quiet(Flavour::Installing) {
        let roles = world.begin_quiet();
        let lagging = roles.lagging;
        world.cut_off(lagging);
        let last = world.fill_bucket(roles.master);
        let mut dropped = world.learn_of_drop(lagging);
        world.outrun(roles);
        assert!(!world.maintain(lagging, &mut dropped, LAGS_US), "it hears no master");
        world.cuts.heal();
        let held = world.hold_installation(lagging);
        assert!(held.applied < last && held.installed >= last);
        assert_eq!(world.bucket_rows(lagging), ROWS, "the store has switched");
        assert!(!world.maintain(lagging, &mut dropped, LAGS_US), "they do not count yet");
        world.release(&held);
        assert!(world.maintain(lagging, &mut dropped, LEVEL_US), "it has caught up");
        world.assert_freed_for_good(roles, last);
    }
}

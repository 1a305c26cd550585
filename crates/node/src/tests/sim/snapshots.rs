//! A snapshot's way from node to node: the state at one moment, in force at a later one, if both
//! nodes are still what they were.

use super::mate::group_id;
use super::world::{Event, World};
use base::{ConfigurationId, NodeId};
use replication::snapshot::StagedSnapshot;
use std::sync::Arc;

/// Who gets a snapshot: a node's part in one group, in one life.
#[derive(Clone, Copy)]
pub(super) struct Fetcher {
    pub mate: usize,
    pub group: usize,
    pub life: u64,
}

impl World {
    /// Whoever was told to get a snapshot begins to, one at a time.
    pub(super) fn look_at_wanted(&mut self, which: usize) {
        for group in 0..self.judges.len() {
            let Some(life) = &mut self.mates[which].life else { return };
            let seat = &mut life.seats[group];
            let Some(from) = seat.group.state().snapshot.wanted.take() else { continue };
            if !std::mem::replace(&mut seat.fetches, true) {
                let by = Fetcher { mate: which, group, life: life.number };
                let way = self.chance.between(1_000, 100_000);
                self.at(way, Event::Asked { from, by });
            }
        }
    }

    /// The state of the moment is taken; it takes a while until it is all there.
    pub(super) fn asked(&mut self, from: NodeId, by: Fetcher) {
        let sender = self.mates.iter().position(|mate| mate.node == from);
        let staged = sender.filter(|from| !self.is_cut(*from, by.mate)).and_then(|sender| {
            let life = self.mates[sender].life.as_ref()?;
            let configuration = life.group(by.group).configuration();
            let first = Some(configuration).filter(|one| one.id() == ConfigurationId(0));
            let trees = Arc::clone(&self.mates[by.mate].trees);
            let (from, group) = (&*self.mates[sender].trees, group_id(by.group));
            match (self.mates[sender].witness, self.mates[by.mate].witness) {
                (true, _) => None,
                (_, true) => StagedSnapshot::marked(from, trees, group, first),
                _ => StagedSnapshot::copied(from, (trees, &Arc::default()), group, first),
            }
        });
        let takes = self.chance.between(1_000, 2_000_000);
        self.at(takes, Event::Staged { by, staged: staged.map(Box::new) });
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        [(from, to), (to, from)].iter().any(|way| self.cuts.get(way).is_some_and(|cuts| *cuts > 0))
    }

    pub(super) fn staged(&mut self, by: Fetcher, staged: Option<Box<StagedSnapshot>>) {
        let life = self.mates[by.mate].life.as_mut();
        let Some(life) = life.filter(|life| life.number == by.life) else { return };
        let seat = &mut life.seats[by.group];
        seat.fetches = false;
        let Some(staged) = staged else { return };
        let installed = &mut self.installed[by.mate][by.group];
        *installed = (*installed).max(staged.upto());
        *self.counts.entry("snapshot").or_default() += 1;
        if seat.group.leadership.is_master() {
            *self.counts.entry("snapshot at a master").or_default() += 1;
        }
        seat.group.fetched(Ok(Ok(*staged))).expect("nothing fails here");
        self.wake(by.mate, 0);
    }
}

//! A snapshot's way from node to node: the state at one moment, in force at a later one, if both
//! nodes are still what they were.

use super::mate::GROUP;
use super::world::{Event, World};
use crate::consistent::snapshot::Staged;
use base::{ConfigurationId, NodeId};
use std::sync::Arc;

impl World {
    /// Whoever was told to get a snapshot begins to, one at a time.
    pub(super) fn look_at_wanted(&mut self, which: usize) {
        let Some(life) = &mut self.mates[which].life else { return };
        let Some(from) = life.group.state().wants_snapshot.take() else { return };
        if !std::mem::replace(&mut life.fetches, true) {
            let life = life.number;
            let way = self.chance.between(1_000, 100_000);
            self.at(way, Event::Asked { from, by: which, life });
        }
    }

    /// The state of the moment is taken; it takes a while until it is all there.
    pub(super) fn asked(&mut self, from: NodeId, by: usize, number: u64) {
        let sender = self.mates.iter().position(|mate| mate.node == from);
        let staged = sender.filter(|from| !self.is_cut(*from, by)).and_then(|sender| {
            let configuration = self.mates[sender].life.as_ref()?.group.configuration();
            let first = Some(configuration).filter(|one| one.id() == ConfigurationId(0));
            let trees = Arc::clone(&self.mates[by].trees);
            Staged::copied(&*self.mates[sender].trees, trees, GROUP, first)
        });
        let takes = self.chance.between(1_000, 2_000_000);
        self.at(takes, Event::Staged { by, life: number, staged: staged.map(Box::new) });
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        [(from, to), (to, from)].iter().any(|way| self.cuts.get(way).is_some_and(|cuts| *cuts > 0))
    }

    pub(super) fn staged(&mut self, by: usize, number: u64, staged: Option<Box<Staged>>) {
        let mate = &mut self.mates[by];
        let Some(life) = mate.life.as_mut().filter(|life| life.number == number) else { return };
        life.fetches = false;
        let Some(staged) = staged else { return };
        self.installed[by] = self.installed[by].max(staged.upto());
        *self.counts.entry("snapshot").or_default() += 1;
        life.group.fetched(Ok(Ok(*staged))).expect("nothing fails here");
        self.wake(by, 0);
    }
}

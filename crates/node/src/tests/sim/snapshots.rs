//! Transfer of a snapshot: it has the state of one moment and is installed at a later one, unless
//! one of the nodes has restarted meanwhile.

use super::flavours::Flavour;
use super::node::group_id;
use super::world::{Event, World};
use base::{ConfigurationId, NodeId};
use replica_state::snapshot::StagedSnapshot;
use std::sync::Arc;

/// Receiver of a snapshot: a node's replica of one group, in one process.
#[derive(Clone, Copy)]
pub(super) struct Fetcher {
    pub node: usize,
    pub group: usize,
    pub process: u64,
}

impl World {
    /// Starts to fetch snapshots that the replicas of a node were told to take, one at a time, and
    /// to install those that were fetched.
    pub(super) fn look_at_wanted(&mut self, nth: usize) {
        self.begin_installations(nth);
        let in_steps = self.flavour == Flavour::Installing;
        for group in 0..self.judges.len() {
            let Some(process) = &mut self.nodes[nth].process else { return };
            let replica = &mut process.replicas[group];
            let mut state = replica.group.state();
            let source = match in_steps {
                true => state.snapshot.take_fetch_source(),
                // Seeds were found with this, which may fetch another one before the installation.
                false => state.snapshot.fetch_source.take(),
            };
            drop(state);
            let Some(from) = source else { continue };
            if !std::mem::replace(&mut replica.is_fetching, true) {
                let by = Fetcher { node: nth, group, process: process.number };
                let way = self.chance.between(1_000, 100_000);
                self.at(way, Event::Asked { from, by });
            }
        }
    }

    /// Takes the snapshot at its sender; it arrives completely after a while.
    pub(super) fn asked(&mut self, from: NodeId, by: Fetcher) {
        let sender = self.nodes.iter().position(|node| node.id == from);
        let staged = sender.filter(|from| !self.is_cut(*from, by.node)).and_then(|sender| {
            let process = self.nodes[sender].process.as_ref()?;
            let configuration = process.group(by.group).configuration();
            let first = Some(configuration).filter(|one| one.id() == ConfigurationId(0));
            let trees = Arc::clone(&self.nodes[by.node].trees);
            let (from, group) = (&*self.nodes[sender].trees, group_id(by.group));
            match (self.nodes[sender].witness, self.nodes[by.node].witness) {
                (true, _) => None,
                (_, true) => StagedSnapshot::without_rows(from, trees, group, first),
                _ => StagedSnapshot::copy_of(from, (trees, &Arc::default()), group, first),
            }
        });
        let takes = self.chance.between(1_000, 2_000_000);
        self.at(takes, Event::Staged { by, staged: staged.map(Box::new) });
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.is_cut(from, to) || self.cuts.is_cut(to, from)
    }

    pub(super) fn staged(&mut self, by: Fetcher, staged: Option<Box<StagedSnapshot>>) {
        let process = self.nodes[by.node].process.as_mut();
        let Some(process) = process.filter(|process| process.number == by.process) else { return };
        let replica = &mut process.replicas[by.group];
        replica.is_fetching = false;
        let Some(staged) = staged else { return };
        let installed = &mut self.installed[by.node][by.group];
        *installed = (*installed).max(staged.last_index());
        self.journal.count("snapshot");
        if replica.group.leadership.is_master() {
            self.journal.count("snapshot at a master");
        }
        replica.group.on_fetch_ended(Ok(Ok(*staged))).expect("nothing fails here");
        self.wake(by.node, 0);
    }
}

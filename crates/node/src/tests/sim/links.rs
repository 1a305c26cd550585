//! Ends of connections between nodes: other nodes learn them when a process ends, and at times when
//! something between two living nodes ends their connection.

use super::world::{Era, Event, World};

/// Time until a node learns that a connection ended, in microseconds.
const NOTICE_US: (u64, u64) = (50, 5_000);
/// Rate of faults, per mille, beside which all connections of a living node end.
const FALSE_ENDS: u64 = 150;

impl World {
    /// Kills a node's process: the system closes its connections, as far as the network permits.
    pub(super) fn kill(&mut self, nth: usize) {
        self.nodes[nth].kill_process(&mut self.chance);
        self.close_links(nth);
    }

    /// Lets all nodes that a node reaches learn that their connections with it ended.
    pub(super) fn close_links(&mut self, nth: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != nth) {
            if !self.cuts.is_cut(nth, other) {
                self.end_link(other, nth);
            }
        }
    }

    /// At times ends all connections of a node, which lives on.
    pub(super) fn draw_link_ends(&mut self) {
        if self.era < Era::Stepped || !self.steps.draw_bool(FALSE_ENDS) {
            return;
        }
        let group = self.steps.below(self.judges.len() as u64) as usize;
        let nth = match self.master(group).filter(|_| self.steps.draw_bool(500)) {
            Some(master) => master,
            None => self.steps.below(self.nodes.len() as u64) as usize,
        };
        self.end_links(nth);
    }

    /// Ends the connections of a node with all others: both sides learn it.
    pub(super) fn end_links(&mut self, nth: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != nth) {
            self.end_link(other, nth);
            self.end_link(nth, other);
        }
    }

    fn end_link(&mut self, node: usize, other: usize) {
        let notice_us = self.steps.between(NOTICE_US.0, NOTICE_US.1);
        self.at(notice_us, Event::LinkEnds { node, other });
    }

    /// Reports the end of a connection to a node's groups.
    pub(super) fn link_ends(&mut self, nth: usize, other: usize) {
        let other = self.nodes[other].id;
        let Some(process) = &self.nodes[nth].process else { return };
        process.replicas.iter().for_each(|replica| replica.group.on_link_ended(other));
        self.journal.count("link end");
        self.wake(nth, 0);
    }
}

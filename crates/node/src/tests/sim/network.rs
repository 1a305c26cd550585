//! Simulated network: messages are lost, delayed, overtaken, duplicated, or repeated when old.

use super::node::group_id;
use super::world::{Event, World};
use base::{GroupId, NodeId};
use bytes::Bytes;
use sim::{Chance, FaultProfile};

/// Draws a fault profile of the network.
pub(super) fn draw_profile(chance: &mut Chance, older: bool) -> FaultProfile {
    match chance.below(3) {
        0 => FaultProfile::calm(),
        1 => {
            FaultProfile { stale: if older { 0 } else { 100 }, ..FaultProfile::new(20, 20, 5_000) }
        }
        _ if older => {
            let (loss, duplicates) = (chance.below(200), chance.below(200));
            FaultProfile::new(loss, duplicates, chance.between(1_000, 60_000))
        }
        _ => {
            let (loss, duplicates) = (chance.below(301), chance.below(501));
            let stale = chance.below(501);
            FaultProfile {
                stale,
                ..FaultProfile::new(loss, duplicates, chance.between(1_000, 100_000))
            }
        }
    }
}

impl World {
    pub(super) fn send(&mut self, from: usize, to: NodeId, group: GroupId, payload: Bytes) {
        let Some(to) = self.nodes.iter().position(|node| node.id == to) else { return };
        let group = (group.0 - group_id(0).0) as usize;
        self.journal.record((self.queue.now(), from, to, &payload[..]));
        let profile = if self.has_faults { self.profile } else { FaultProfile::calm() };
        self.tell(|| {
            let message = logic::consensus::Message::read(&mut base::codec::Reader::new(&payload));
            format!("{} -> {} {message:?}", from + 1, to + 1)
        });
        for copy in 0..profile.copies(&mut self.chance) {
            let (delay, is_stale) = profile.delay(copy, &mut self.chance);
            if is_stale {
                self.journal.count("old message");
            }
            if !self.chance.draw_bool(profile.loss) {
                self.at(delay, Event::Arrives { from, to, group, payload: payload.clone() });
            }
        }
    }
}

//! The network: messages that are lost, late, overtaken, doubled, and come again when they are old.

use super::chance::Chance;
use super::mate::group_id;
use super::world::{Event, World};
use base::{GroupId, NodeId};
use bytes::Bytes;
use std::hash::Hash;

/// Every message takes at least so long, microseconds.
const WAY_US: u64 = 100;
/// What comes again may be so old, microseconds.
const OLD_US: (u64, u64) = (50_000, 10_000_000);

/// What the network does with messages.
#[derive(Clone, Copy)]
pub(super) struct Weather {
    /// So many are lost, in thousandths.
    lost: u64,
    /// So many come once more.
    doubled: u64,
    /// Of those so many when they are old.
    old: u64,
    /// So late they may be, microseconds.
    late: u64,
}

/// When there is no trouble.
const FAIR: Weather = Weather { lost: 0, doubled: 0, old: 0, late: 500 };

impl Weather {
    pub fn of(chance: &mut Chance, older: bool) -> Weather {
        match chance.below(3) {
            0 => FAIR,
            1 => Weather { lost: 20, doubled: 20, old: if older { 0 } else { 100 }, late: 5_000 },
            _ if older => Weather {
                lost: chance.below(200),
                doubled: chance.below(200),
                old: 0,
                late: chance.between(1_000, 60_000),
            },
            _ => Weather {
                lost: chance.below(301),
                doubled: chance.below(501),
                old: chance.below(501),
                late: chance.between(1_000, 100_000),
            },
        }
    }
}

impl World {
    pub(super) fn send(&mut self, from: usize, to: NodeId, group: GroupId, payload: Bytes) {
        let Some(to) = self.mates.iter().position(|mate| mate.node == to) else { return };
        let group = (group.0 - group_id(0).0) as usize;
        (self.now, from, to, &payload[..]).hash(&mut self.trace);
        let Weather { lost, doubled, old, late } = if self.troubled { self.weather } else { FAIR };
        self.tell(|| {
            let message = logic::consensus::Message::read(&mut base::codec::Reader::new(&payload));
            format!("{} -> {} {message:?}", from + 1, to + 1)
        });
        let copies = 1 + u64::from(self.chance.often(doubled));
        for copy in 0..copies {
            let mut way = WAY_US + self.chance.below(late);
            if copy > 0 && old > 0 && self.chance.often(old) {
                way += self.chance.between(OLD_US.0, OLD_US.1);
                *self.counts.entry("old message").or_default() += 1;
            }
            if !self.chance.often(lost) {
                self.at(way, Event::Arrives { from, to, group, payload: payload.clone() });
            }
        }
    }
}

//! Lists of bridges: what they answer, their bound, and how much a reader repeats.

use super::{at, random_position, slots};
use crate::{BRIDGES_MAX, Bridge, BridgeList, VnodePosition, behind_bridges};
use proptest::prelude::*;

fn random_bridge() -> impl Strategy<Value = Bridge> {
    (random_position(), random_position()).prop_map(|(peer, own)| Bridge { peer, own })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn list_answers_as_all_bridges_do(
        bridges in proptest::collection::vec(random_bridge(), 0..40),
        peers in proptest::collection::vec(random_position(), 0..10),
    ) {
        let list = BridgeList::new(bridges.iter().copied());
        for peer in peers.into_iter().chain(bridges.iter().map(|bridge| bridge.peer)) {
            let behind = bridges.iter().filter(|bridge| bridge.peer <= peer);
            prop_assert_eq!(list.behind(peer), behind.map(|bridge| bridge.own).max());
        }
        let kept: Vec<Bridge> = list.iter().collect();
        let rises = |pair: &[Bridge]| pair[0].peer < pair[1].peer && pair[0].own < pair[1].own;
        prop_assert!(kept.windows(2).all(rises));
    }

    #[test]
    fn changes_of_a_list_say_what_is_in_it(
        bridges in proptest::collection::vec(random_bridge(), 0..200),
    ) {
        let (mut list, mut stored) = (BridgeList::default(), Vec::new());
        for bridge in bridges {
            let change = list.push(bridge);
            if change.is_added {
                stored.push(bridge);
            }
            stored.retain(|known| !change.removed.contains(known));
            stored.sort();
            prop_assert_eq!(&stored, &list.iter().collect::<Vec<_>>());
            prop_assert!(stored.len() <= BRIDGES_MAX);
        }
    }

    #[test]
    fn reader_repeats_about_as_much_as_it_lags(
        steps in proptest::collection::vec(1..100_u64, 5_000..5_001),
    ) {
        let (mut list, mut batch) = (BridgeList::default(), 0);
        for step in steps {
            batch += step;
            list.push(Bridge { peer: at(batch), own: at(batch) });
        }
        let oldest = list.iter().next().expect("there are many").peer.batch;
        for lag in (0..batch - oldest).step_by(97) {
            let own = list.behind(at(batch - lag)).expect("behind the oldest").batch;
            prop_assert!(batch - own <= 2 * lag + 200, "{lag}: {}", batch - own);
        }
    }
}

#[test]
fn oldest_and_newest_bridge_stay() {
    let mut list = BridgeList::default();
    for batch in 1..1_000 {
        list.push(Bridge { peer: at(batch), own: at(batch + 7) });
        assert_eq!(list.behind(at(1)), Some(at(8)));
        assert_eq!(list.last(), Some(Bridge { peer: at(batch), own: at(batch + 7) }));
    }
    assert_eq!((list.behind(at(0)), list.iter().count()), (None, BRIDGES_MAX));
}

#[test]
fn newest_bridge_of_each_slot_counts_if_it_is_young_enough() {
    let list = |peer, own| BridgeList::new([Bridge { peer: at(peer), own: at(own) }]);
    let (fine, coarse) = (list(10, 3), list(10, 5));
    let lists = || [(slots(0..8), &fine), (slots(4..16), &coarse)];
    let behind = |peer, since: VnodePosition| {
        behind_bridges(lists(), at(peer), &slots([1, 4, 7, 9, 20]), since)
    };
    let (first, second) = ((at(3), slots([1])), (at(5), slots([4, 7, 9])));
    assert_eq!(behind(10, VnodePosition::START), [first, second]);
    assert_eq!(behind(10, at(4)), [second], "the other may not know this bucket");
    assert_eq!(behind(9, VnodePosition::START), []);
}

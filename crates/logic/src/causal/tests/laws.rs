//! Laws of clocks, on states that histories reach.

use super::Dice;
use super::model::{Memory, World};
use crate::causal::Clock;
use base::dots::DotContext;
use base::{Actor, NodeId};

type Numbers = Clock<Actor, u64>;

/// Checks every state that some thousand histories reach, three at a time, with all possible
/// losses.
fn check_triples(judge: impl FnMut([Numbers; 3], &mut Dice)) {
    check_histories(Memory::Lossy, judge);
}

fn check_histories(memory: Memory, mut judge: impl FnMut([Numbers; 3], &mut Dice)) {
    for history in 0..4_000 {
        let mut dice = Dice(0x1A35 ^ history);
        let mut world = World::new(3);
        for _ in 0..13 {
            world.step(memory, &mut dice);
            let [a, b, c] = &world.rows[..] else { panic!("three replicas") };
            judge([a.0.clone(), b.0.clone(), c.0.clone()], &mut dice);
        }
    }
}

/// Returns the values in sorted order.
fn sorted(clock: &Numbers) -> Vec<u64> {
    let mut values: Vec<u64> = clock.values().copied().collect();
    values.sort_unstable();
    values
}

#[test]
fn sync_is_commutative_associative_and_idempotent() {
    check_triples(|[a, b, c], _| {
        let ab = a.clone().sync(b.clone());
        assert_eq!(ab, b.clone().sync(a.clone()));
        let bc = b.clone().sync(c.clone());
        assert_eq!(ab.clone().sync(c), a.clone().sync(bc));
        assert_eq!(ab.clone().sync(b), ab);
        assert_eq!(a.clone().sync(a.clone()), a);
        assert_eq!(a.clone().sync(Clock::empty()), a);
        assert_eq!(Clock::sync_many([a.clone()]), a);
    });
}

#[test]
fn clock_order_is_strict_and_sync_is_its_upper_bound() {
    check_triples(|[a, b, c], _| {
        assert!(!a.less(&a));
        assert!(!(a.less(&b) && b.less(&a)));
        assert!(!(a.less(&b) && b.less(&c)) || a.less(&c));
        let ab = a.clone().sync(b.clone());
        assert_eq!(ab.join(), a.join().join(&b.join()));
        assert!(ab.join().covers(&a.join()) && ab.join().covers(&b.join()));
        if a.less(&b) {
            // Values may still differ: a vanished row may return.
            assert_eq!(ab.join(), b.join());
        }
    });
}

/// The strict law: only where rows vanish may a lesser clock bring back a value.
#[test]
fn sync_with_lesser_clock_adds_nothing_without_row_loss() {
    let mut pairs = 0;
    check_histories(Memory::Perfect, |[a, b, c], _| {
        for (less, more) in [(&a, &b), (&b, &a), (&a, &c), (&c, &a), (&b, &c), (&c, &b)] {
            if less.less(more) {
                assert_eq!(less.clone().sync(more.clone()), *more);
                pairs += 1;
            }
        }
    });
    assert!(pairs > 10_000, "{pairs}");
}

#[test]
fn write_advances_only_its_actor_and_replaces_covered_values() {
    check_triples(|[state, other, _], dice| {
        let id = Actor { node: NodeId(1 + dice.below(4)), vnode: 7, incarnation: 1 };
        let contexts = [DotContext::empty(), state.join(), other.join()];
        let context = &contexts[dice.below(3) as usize];
        let merged = state.clone().discard(context);
        let after = state.clone().update(context, 99, id);
        assert!(state.less(&after));
        assert!(after.values().any(|value| *value == 99));
        assert!(after.size() <= state.size() + 1);
        let highest = |clock: &Numbers| clock.seen(&id).map_or(0, |seen| seen.highest());
        assert_eq!(highest(&after), highest(&merged) + 1);
        for entry in after.entries().iter().filter(|entry| *entry.id() != id) {
            assert_eq!(Some(entry.seen()), merged.seen(entry.id()));
        }
        let is_uncovered = |dot: Option<(&Actor, u64)>| {
            dot.is_some_and(|(id, count)| !context.contains(id, count))
        };
        let mut expected: Vec<u64> = state
            .siblings()
            .filter(|(dot, _)| is_uncovered(*dot))
            .map(|(_, value)| *value)
            .collect();
        expected.push(99);
        expected.sort_unstable();
        assert_eq!(sorted(&after), expected);
    });
}

#[test]
fn write_with_full_context_replaces_all_values() {
    check_triples(|[state, ..], _| {
        let all = state.join();
        let none = state.clone().discard(&all);
        assert_eq!((none.size(), none.join()), (0, all.clone()));
        let id = Actor { node: NodeId(1), vnode: 7, incarnation: 1 };
        let one = state.update(&all, 99, id);
        assert_eq!(one.values().collect::<Vec<_>>(), [&99]);
    });
}

#[test]
fn lww_and_reconcile_keep_single_value_and_context() {
    check_triples(|[state, ..], _| {
        let one = state.clone().lww(u64::le);
        assert_eq!(one.join(), state.join());
        assert_eq!(one.values().max(), state.values().max());
        assert!(one.size() <= 1 && one.size() == state.size().min(1));
        assert_eq!(state.last(u64::le), one.last(u64::le));
        assert_eq!(state.clone().sync(one.clone()), one);
        let sum = state.clone().reconcile(|values| values.iter().sum());
        assert_eq!((sum.size(), sum.join()), (1, state.join()));
    });
}

#[test]
fn context_join_is_least_upper_bound() {
    check_triples(|[a, b, c], _| {
        let (a, b, c) = (a.join(), b.join(), c.join());
        let ab = a.clone().join(&b);
        assert_eq!(ab, b.clone().join(&a));
        assert_eq!(ab.clone().join(&c), a.clone().join(&b.clone().join(&c)));
        assert!(ab.covers(&a) && ab.covers(&b) && a.covers(&a));
        assert!(!(a.covers(&b) && b.covers(&a)) || a == b);
        assert!(!(a.covers(&b) && b.covers(&c)) || a.covers(&c));
        assert!(!(c.covers(&a) && c.covers(&b)) || c.covers(&ab));
    });
}

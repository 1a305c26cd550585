//! Examples of the paper, one by one, and those of ranges of counters.

use super::{clock, context};
use crate::causal::Clock;
use base::dots::{CounterSet, DotContext};

type Strings = Clock<&'static str, &'static str>;

fn write(
    to: Strings,
    after: &[(&'static str, u64)],
    value: &'static str,
    at: &'static str,
) -> Strings {
    to.update(&context(after), value, at)
}

#[test]
fn first_write_creates_first_dot() {
    let first = write(Clock::empty(), &[], "v1", "a");
    assert_eq!(first, clock(&[("a", 1, &["v1"])], &[]));
}

#[test]
fn write_with_context_replaces_covered_value() {
    let second = write(clock(&[("a", 1, &["v1"])], &[]), &[("a", 1)], "v2", "a");
    assert_eq!(second, clock(&[("a", 2, &["v2"])], &[]));
}

#[test]
fn blind_write_adds_sibling_and_next_write_replaces_only_seen() {
    let blind = write(clock(&[("a", 1, &["v1"])], &[]), &[], "v2", "a");
    assert_eq!(blind, clock(&[("a", 2, &["v2", "v1"])], &[]));
    let third = write(blind, &[("a", 1)], "v3", "a");
    assert_eq!(third, clock(&[("a", 3, &["v3", "v2"])], &[]));
}

#[test]
fn write_at_other_replica_with_stale_context_keeps_sibling() {
    let both = write(clock(&[("a", 2, &["v2"])], &[]), &[("a", 1)], "v4", "b");
    assert_eq!(both, clock(&[("a", 2, &["v2"]), ("b", 1, &["v4"])], &[]));
}

#[test]
fn sync_drops_value_replaced_at_other_replica() {
    let synced: Strings = clock(&[("a", 1, &[])], &[]).sync(clock(&[("a", 2, &["v2", "v1"])], &[]));
    assert_eq!(synced, clock(&[("a", 2, &["v2"])], &[]));
}

#[test]
fn sync_keeps_value_unseen_by_other_replica() {
    let synced: Strings = clock(&[("x", 1, &[])], &[]).sync(clock(&[("a", 1, &["v1"])], &[]));
    assert_eq!(synced, clock(&[("a", 1, &["v1"]), ("x", 1, &[])], &[]));
}

#[test]
fn equal_values_with_distinct_dots_stay_siblings() {
    let third: Strings = clock(&[("a", 2, &[]), ("b", 1, &["v3"])], &[]);
    let fourth = clock(&[("a", 2, &[]), ("c", 1, &["v3"])], &[]);
    let both = clock(&[("a", 2, &[]), ("b", 1, &["v3"]), ("c", 1, &["v3"])], &[]);
    assert_eq!(fourth.sync(third), both);
}

#[test]
fn last_write_wins_keeps_single_value_at_its_dot() {
    let all = clock(&[("a", 4, &[5, 2]), ("b", 1, &[]), ("c", 1, &[3])], &[]);
    assert_eq!(all.last(i32::le), Some(&5));
    let one = clock(&[("a", 4, &[5]), ("b", 1, &[]), ("c", 1, &[])], &[]);
    assert_eq!(all.clone().lww(i32::le), one);
    // The oldest of an actor's values may win: it stays at its own dot.
    let kept = all.lww(i32::ge);
    assert_eq!(kept.siblings().collect::<Vec<_>>(), [(Some((&"a", 3)), &2)]);
}

#[test]
fn reconcile_merges_siblings_and_keeps_context() {
    let all = clock(&[("a", 4, &[5, 2]), ("b", 1, &[]), ("c", 1, &[3])], &[]);
    let sum = clock(&[("a", 4, &[]), ("b", 1, &[]), ("c", 1, &[])], &[10]);
    assert_eq!(all.reconcile(|values| values.iter().sum()), sum);
}

#[test]
fn clock_equality_compares_dots_only() {
    let one: Strings = clock(&[("a", 4, &["v5", "v0"]), ("b", 0, &[]), ("c", 1, &["v3"])], &["v0"]);
    let other = clock(&[("a", 4, &["v555", "v0"]), ("b", 0, &[]), ("c", 1, &["v3"])], &[]);
    assert!(one.equal(&other) && other.equal(&one));
    assert!(!one.equal(&clock(&[("a", 4, &["v5"]), ("c", 1, &["v3"])], &[])));
    assert!(!one.equal(&clock(&[("a", 5, &["v5", "v0"]), ("c", 1, &["v3"])], &[])));
}

#[test]
fn clock_size_and_values_include_values_without_dots() {
    let all: Strings =
        clock(&[("a", 4, &["v5", "v0"]), ("b", 0, &[]), ("c", 1, &["v3"])], &["v4", "v1"]);
    assert_eq!(all.size(), 5);
    assert_eq!(all.values().copied().collect::<Vec<_>>(), ["v4", "v1", "v5", "v0", "v3"]);
    assert_eq!(all.ids().copied().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(all.join(), context(&[("a", 4), ("c", 1)]));
}

#[test]
fn clock_less_compares_dots_only_and_is_strict() {
    let low: Strings = clock(&[("a", 1, &["v1"])], &[]);
    for high in [clock(&[("a", 2, &[])], &[]), clock(&[("a", 1, &[]), ("b", 1, &["v2"])], &[])] {
        assert!(low.less(&high) && !high.less(&low));
    }
    assert!(!low.less(&low));
    let concurrent = clock(&[("b", 1, &["v2"])], &[]);
    assert!(!low.less(&concurrent) && !concurrent.less(&low));
}

#[test]
fn sync_keeps_dotless_values_of_causally_newer_clock() {
    let low: Strings = clock(&[("a", 1, &[])], &["old"]);
    let high = clock(&[("a", 2, &[])], &["new"]);
    assert_eq!(low.clone().sync(high.clone()), high);
    assert_eq!(high.clone().sync(low.clone()), high);
    let concurrent = clock(&[("b", 1, &[])], &["beside", "old"]);
    let both = clock(&[("a", 1, &[]), ("b", 1, &[])], &["beside", "old"]);
    assert_eq!(low.sync(concurrent), both);
}

#[test]
fn clock_from_context_and_mapped_clock_keep_context() {
    let fresh = Clock::after(&context(&[("b", 2), ("a", 1)]), 7);
    assert_eq!(fresh, clock(&[("a", 1, &[]), ("b", 2, &[])], &[7]));
    let words = clock(&[("a", 2, &[1, 2])], &[3]).map(|number| number.to_string());
    assert_eq!(words.values().collect::<Vec<_>>(), ["3", "1", "2"]);
    assert_eq!(words.join(), context(&[("a", 2)]));
}

/// A client writes twice in a row through different replicas; the second write was never shown the
/// siblings of the first.
#[test]
fn put_context_replaces_own_write_and_keeps_unseen_sibling() {
    let sibling = write(Clock::empty(), &[], "theirs", "a");
    let first = sibling.update(&DotContext::empty(), "mine", "a");
    let acknowledged = DotContext::empty().with_dot("a", 2);
    // Another replica, without any dot, receives the second write first.
    let elsewhere = Clock::empty().update(&acknowledged, "mine again", "b");
    let both = first.clone().sync(elsewhere.clone());
    assert_eq!(both.values().copied().collect::<Vec<_>>(), ["theirs", "mine again"]);
    assert_eq!(elsewhere.sync(first), both);
    assert_eq!(both.join(), context(&[("a", 2), ("b", 1)]), "the gap has closed");
}

/// Shows the harm of a put that returned its replica's whole context: a sibling that the client
/// never saw would be gone.
#[test]
fn full_replica_context_replaces_unseen_sibling() {
    let state = write(write(Clock::empty(), &[], "theirs", "a"), &[], "mine", "a");
    let lost = state.clone().update(&state.join(), "mine again", "a");
    assert_eq!(lost.values().copied().collect::<Vec<_>>(), ["mine again"]);
}

/// Two clients alternate, each with the context that it read just before the other's write: plain
/// version vectors end with 101 siblings.
#[test]
fn alternating_stale_writers_keep_at_most_two_siblings() {
    let mut state: Clock<&str, u64> = Clock::empty();
    let mut contexts = [DotContext::empty(), DotContext::empty()];
    for round in 0..1_000 {
        let client = (round % 2) as usize;
        state = state.update(&contexts[client], round, "a");
        contexts[client] = state.join();
        assert!(state.size() <= 2, "{round}: {}", state.size());
    }
    let reader = state.join();
    assert_eq!(state.update(&reader, 0, "a").size(), 1);
}

#[test]
fn counter_set_merges_adjacent_ranges_and_rejects_invalid_ranges() {
    let mut seen = CounterSet::single(5).expect("as written");
    for count in [1, 3, 9, 4, 2] {
        seen.add(count);
    }
    assert_eq!(seen.ranges().collect::<Vec<_>>(), [(1, 5), (9, 9)]);
    assert!(seen.contains(3) && !seen.contains(6) && seen.contains(9) && !seen.contains(0));
    assert_eq!((seen.highest(), seen.range_count()), (9, 2));
    let inner = CounterSet::from_ranges(&[(2, 3), (5, 5), (9, 9)]).expect("as written");
    assert!(seen.covers(&inner) && !inner.covers(&seen));
    for wrong in [&[(0, 1)][..], &[(3, 2)], &[(1, 2), (3, 4)], &[(5, 6), (1, 2)], &[]] {
        assert_eq!(CounterSet::from_ranges(wrong), None, "{wrong:?}");
    }
}

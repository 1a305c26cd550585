//! Laws of quorums in every order of events: compares the state machines with a naive model that
//! keeps all events and recomputes everything each time.

use super::Words;
use crate::quorum::{
    Fetch, FetchEffect, FetchEvent, FetchNeeds, FetchOutcome, Replicas, Store, StoreEffect,
    StoreEvent, StoreNeeds, StoreOutcome, Versions,
};
use base::{NodeId, Share, Shortfall};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Next event of one of the nodes.
#[derive(Clone, Copy, Debug)]
enum RandomEvent {
    Good,
    Nothing,
    Failed,
    Late,
    TimedOut,
}

fn random_event() -> impl Strategy<Value = (RandomEvent, u64, u8)> {
    let kind = prop_oneof![
        8 => Just(RandomEvent::Good),
        4 => Just(RandomEvent::Nothing),
        4 => Just(RandomEvent::Failed),
        2 => Just(RandomEvent::Late),
        1 => Just(RandomEvent::TimedOut),
    ];
    (kind, 1..9_u64, 0..4_u8)
}

/// Primaries 1 to n, then fallbacks, and the nodes of both that are down.
fn replicas() -> impl Strategy<Value = (Replicas, BTreeSet<NodeId>)> {
    let down = proptest::collection::btree_set((1..9_u64).prop_map(NodeId), 0..4);
    (1..6_u64, 0..4_u64, down).prop_map(|(primaries, fallbacks, down)| {
        let nodes = |range: std::ops::RangeInclusive<u64>| range.map(NodeId).collect::<Vec<_>>();
        let fallbacks = nodes(primaries + 1..=primaries + fallbacks);
        let mut replicas = Replicas::new(nodes(1..=primaries), fallbacks);
        replicas.mark_down(|node| down.contains(&node));
        (replicas, down)
    })
}

/// Record of the nodes that were asked, by the effects.
#[derive(Default)]
struct Ledger {
    calls: BTreeMap<NodeId, Option<NodeId>>,
    /// Nodes whose last answer has arrived.
    closed: BTreeSet<NodeId>,
}

impl Ledger {
    fn ask(
        &mut self,
        node: NodeId,
        instead_of: Option<NodeId>,
        (replicas, down): (&Replicas, &BTreeSet<NodeId>),
    ) {
        assert_eq!(self.calls.insert(node, instead_of), None, "node {node} is asked once");
        match instead_of {
            None => assert!(replicas.primaries.contains(&node)),
            Some(primary) => {
                assert!(replicas.primaries.contains(&primary));
                assert!(replicas.fallbacks.contains(&node) && !down.contains(&node));
            }
        }
    }

    fn is_open(&self, node: NodeId) -> bool {
        self.calls.contains_key(&node) && !self.closed.contains(&node)
    }

    fn open(&self) -> Vec<NodeId> {
        self.calls.keys().copied().filter(|node| self.is_open(*node)).collect()
    }
}

fn shortfall(share: Share, got: usize, needed: u8) -> Option<Shortfall> {
    (got < usize::from(needed)).then_some(Shortfall { share, got: got as u8, needed })
}

fn count_primaries(replicas: &Replicas, nodes: &[NodeId]) -> usize {
    nodes.iter().filter(|node| replicas.primaries.contains(node)).count()
}

/// Returns the requirement that these nodes do not meet. `None`: all are met.
fn read_shortfall(needs: &FetchNeeds, replicas: &Replicas, nodes: &[NodeId]) -> Option<Shortfall> {
    shortfall(Share::R, nodes.len(), needs.r)
        .or(shortfall(Share::Pr, count_primaries(replicas, nodes), needs.pr))
        .or(shortfall(Share::NodeConfirms, nodes.len(), needs.node_confirms))
}

/// Returns the outcome that a read must report now. `None`: none yet.
fn expected_read(
    needs: &FetchNeeds,
    replicas: &Replicas,
    answers: &BTreeMap<NodeId, Option<Words>>,
    open: &[NodeId],
    in_time: bool,
) -> Option<FetchOutcome<Words>> {
    let all: Vec<_> = answers.keys().copied().collect();
    let is_counted = |node: &NodeId| needs.notfound_ok || answers[node].is_some();
    let counted: Vec<_> = all.iter().copied().filter(is_counted).collect();
    let merged = merged(answers);
    if read_shortfall(needs, replicas, &counted).is_none() {
        return Some(merged.map_or(FetchOutcome::NotFound, FetchOutcome::Found));
    }
    if merged.is_none() && needs.notfound_quorum.is_some_and(|at| all.len() >= usize::from(at)) {
        return Some(FetchOutcome::NotFound);
    }
    let with_open = |known: &[NodeId]| [known, open].concat();
    let unreachable = read_shortfall(needs, replicas, &with_open(&counted))?;
    if merged.is_none() {
        if read_shortfall(needs, replicas, &all).is_none() {
            return Some(FetchOutcome::NotFound);
        }
        read_shortfall(needs, replicas, &with_open(&all))?;
    }
    let got = match unreachable.share {
        Share::Pr => count_primaries(replicas, &counted),
        _ => counted.len(),
    };
    let short = Shortfall { got: got as u8, ..unreachable };
    Some(if in_time { FetchOutcome::TooFew(short) } else { FetchOutcome::TimedOut(short) })
}

fn merged(answers: &BTreeMap<NodeId, Option<Words>>) -> Option<Words> {
    answers.values().flatten().cloned().reduce(|mut one, other| {
        one.merge(&other);
        one
    })
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn fetch_matches_reference_model_in_any_event_order(
        (replicas, down) in replicas(),
        (r, pr, node_confirms) in (1..5_u8, 0..4_u8, 0..4_u8),
        notfound_quorum in proptest::option::of(1..4_u8),
        notfound_ok: bool,
        random_events in proptest::collection::vec(random_event(), 0..24),
    ) {
        let needs = FetchNeeds { r, pr, node_confirms, notfound_quorum, notfound_ok };
        let mut fetch = Fetch::new(needs, replicas.clone());
        fetch.mark_down(|node| down.contains(&node));
        let mut ledger = Ledger::default();
        let mut answers = BTreeMap::new();
        let mut done = None;
        let mut finished = false;
        let event_count = random_events.len();
        let begun = (FetchEvent::Started, true);
        let last = [(RandomEvent::TimedOut, 0, 0)];
        let events = random_events.into_iter().chain(last).map(|(kind, node, word)| {
            let by = NodeId(node);
            let word = Words([format!("w{word}")].into());
            match kind {
                RandomEvent::Good => (FetchEvent::Answered { by, versions: Some(word) }, true),
                RandomEvent::Nothing => (FetchEvent::Answered { by, versions: None }, true),
                RandomEvent::Failed => (FetchEvent::Failed { by }, true),
                RandomEvent::Late => (FetchEvent::Late { by }, true),
                RandomEvent::TimedOut => (FetchEvent::TimedOut, false),
            }
        });
        for (event, in_time) in std::iter::once(begun).chain(events) {
            match &event {
                FetchEvent::Answered { by, versions } if ledger.is_open(*by) && !finished => {
                    ledger.closed.insert(*by);
                    answers.insert(*by, versions.clone());
                }
                FetchEvent::Failed { by } if ledger.is_open(*by) => {
                    ledger.closed.insert(*by);
                }
                FetchEvent::TimedOut => ledger.closed.extend(ledger.calls.keys()),
                _ => {}
            }
            let mut effects = Vec::new();
            fetch.step(event, &mut effects);
            prop_assert!(!finished || effects.is_empty(), "nothing comes after the end");
            for effect in &effects {
                if let FetchEffect::Ask { node, fallback_for } = effect {
                    ledger.ask(*node, *fallback_for, (&replicas, &down));
                }
            }
            let open = ledger.open();
            if done.is_none() {
                let expected = expected_read(&needs, &replicas, &answers, &open, in_time);
                let reported = effects.iter().find_map(|effect| match effect {
                    FetchEffect::Done(outcome) => Some(outcome.clone()),
                    _ => None,
                });
                prop_assert_eq!(&reported, &expected);
                done = reported;
            }
            let is_last = effects.contains(&FetchEffect::Finished);
            prop_assert_eq!(is_last, open.is_empty() && !finished);
            if is_last {
                check_repairs(&effects, &replicas, &answers)?;
            }
            finished |= is_last;
        }
        prop_assert!(finished && fetch.is_finished() && done.is_some(), "{} events", event_count);
    }

    #[test]
    fn store_matches_reference_model_in_any_event_order(
        (replicas, down) in replicas(),
        (w, dw, pw, node_confirms) in (1..5_u8, 1..4_u8, 0..4_u8, 0..4_u8),
        random_events in proptest::collection::vec(random_event(), 0..24),
    ) {
        let needs = StoreNeeds { w, dw, pw, node_confirms };
        let mut store = Store::new(needs, replicas.clone());
        store.mark_down(|node| down.contains(&node));
        let mut ledger = Ledger::default();
        let (mut taken, mut stored) = (BTreeSet::new(), BTreeSet::new());
        let (mut done, mut finished) = (false, false);
        let last = [(RandomEvent::TimedOut, 0, 0)];
        let events = random_events.into_iter().chain(last).map(|(kind, node, _)| {
            let by = NodeId(node);
            match kind {
                RandomEvent::Good => StoreEvent::Stored { by },
                RandomEvent::Nothing => StoreEvent::Accepted { by },
                RandomEvent::Failed => StoreEvent::Failed { by },
                RandomEvent::Late => StoreEvent::Late { by },
                RandomEvent::TimedOut => StoreEvent::TimedOut,
            }
        });
        for event in std::iter::once(StoreEvent::Started).chain(events) {
            match event {
                StoreEvent::Accepted { by } if ledger.is_open(by) => {
                    taken.insert(by);
                }
                StoreEvent::Stored { by } if ledger.is_open(by) => {
                    ledger.closed.insert(by);
                    taken.insert(by);
                    stored.insert(by);
                }
                StoreEvent::Failed { by } if ledger.is_open(by) => {
                    ledger.closed.insert(by);
                    taken.remove(&by);
                }
                StoreEvent::TimedOut => ledger.closed.extend(ledger.calls.keys()),
                _ => {}
            }
            let mut effects = Vec::new();
            store.step(event, &mut effects);
            prop_assert!(!finished || effects.is_empty(), "nothing comes after the end");
            for effect in &effects {
                if let StoreEffect::Ask { node, fallback_for } = effect {
                    ledger.ask(*node, *fallback_for, (&replicas, &down));
                }
            }
            let open = ledger.open();
            if !done {
                let sets = (&taken, &stored);
                let expected = expected_write(&needs, &replicas, sets, &open, event);
                let reported = effects.iter().find_map(|effect| match effect {
                    StoreEffect::Done(outcome) => Some(*outcome),
                    _ => None,
                });
                prop_assert_eq!(reported, expected);
                done = reported.is_some();
            }
            let is_last = effects.contains(&StoreEffect::Finished);
            prop_assert_eq!(is_last, open.is_empty() && !finished);
            finished |= is_last;
            prop_assert_eq!(store.stored(), stored.len());
        }
        prop_assert!(finished && store.is_finished() && done);
    }
}

/// Checks that exactly the primaries with less than all answers are repaired.
fn check_repairs(
    effects: &[FetchEffect<Words>],
    replicas: &Replicas,
    answers: &BTreeMap<NodeId, Option<Words>>,
) -> Result<(), TestCaseError> {
    let all = merged(answers);
    let behind = answers.iter().filter(|(node, versions)| {
        replicas.primaries.contains(node) && all.is_some() && **versions != all
    });
    let expected: Vec<_> = behind.map(|(node, _)| *node).collect();
    let mut repaired = Vec::new();
    for effect in effects {
        if let FetchEffect::Repair { node, versions } = effect {
            prop_assert_eq!(Some(versions), all.as_ref());
            repaired.push(*node);
        }
    }
    prop_assert_eq!(repaired, expected);
    Ok(())
}

fn write_shortfall(
    needs: &StoreNeeds,
    replicas: &Replicas,
    taken: usize,
    stored: &[NodeId],
) -> Option<Shortfall> {
    shortfall(Share::W, taken, needs.w)
        .or(shortfall(Share::Dw, stored.len(), needs.dw))
        .or(shortfall(Share::Pw, count_primaries(replicas, stored), needs.pw))
        .or(shortfall(Share::NodeConfirms, stored.len(), needs.node_confirms))
}

/// Returns the outcome that a write must report now. `None`: none yet.
fn expected_write(
    needs: &StoreNeeds,
    replicas: &Replicas,
    (taken, stored): (&BTreeSet<NodeId>, &BTreeSet<NodeId>),
    open: &[NodeId],
    event: StoreEvent,
) -> Option<StoreOutcome> {
    let stored_nodes: Vec<_> = stored.iter().copied().collect();
    let Some(short) = write_shortfall(needs, replicas, taken.len(), &stored_nodes) else {
        return Some(StoreOutcome::Enough);
    };
    if event == StoreEvent::TimedOut {
        return Some(StoreOutcome::TimedOut(short));
    }
    let with_open = [&stored_nodes[..], open].concat();
    let unreachable = write_shortfall(needs, replicas, with_open.len(), &with_open)?;
    let got = match unreachable.share {
        Share::W => taken.len(),
        Share::Pw => count_primaries(replicas, &stored_nodes),
        _ => stored_nodes.len(),
    };
    Some(StoreOutcome::TooFew(Shortfall { got: got as u8, ..unreachable }))
}

#[test]
fn fallbacks_are_looked_at_once_a_primary_is_down() {
    use std::cell::RefCell;
    let nodes = |range: std::ops::RangeInclusive<u64>| range.map(NodeId).collect::<Vec<_>>();
    let looked_at = RefCell::new(Vec::new());
    let mut replicas = Replicas::new(nodes(1..=3), nodes(4..=6));
    let mut mark = |down: &[NodeId]| {
        replicas.mark_down(|node| {
            looked_at.borrow_mut().push(node);
            down.contains(&node)
        });
        let is_down: Vec<_> = nodes(1..=6).into_iter().filter(|it| replicas.is_down(*it)).collect();
        (std::mem::take(&mut *looked_at.borrow_mut()), is_down)
    };
    assert_eq!(mark(&[NodeId(5)]), (nodes(1..=3), vec![]));
    assert_eq!(mark(&[NodeId(2), NodeId(5)]), (nodes(1..=6), vec![NodeId(2), NodeId(5)]));
    assert_eq!(mark(&[]), (nodes(1..=3), vec![]), "they are up again");
}

#[test]
fn fallback_that_went_down_meanwhile_is_skipped_and_a_recovered_one_is_asked() {
    let needs = StoreNeeds { w: 2, dw: 2, pw: 0, node_confirms: 0 };
    let nodes = |range: std::ops::RangeInclusive<u64>| range.map(NodeId).collect::<Vec<_>>();
    let mut replicas = Replicas::new(nodes(1..=3), nodes(4..=6));
    replicas.mark_down(|node| [3, 4].map(NodeId).contains(&node));
    let (mut store, mut effects) = (Store::new(needs, replicas), Vec::new());
    store.step(StoreEvent::Started, &mut effects);
    let ask = |node, primary| StoreEffect::Ask {
        node: NodeId(node),
        fallback_for: Some(primary).filter(|it| *it != node).map(NodeId),
    };
    assert_eq!(effects, [ask(1, 1), ask(2, 2), ask(5, 3)]);
    effects.clear();
    store.mark_down(|node| node == NodeId(6));
    store.step(StoreEvent::Failed { by: NodeId(1) }, &mut effects);
    assert_eq!(effects, [], "the last one is down");
    let mut replicas = Replicas::new(nodes(1..=2), nodes(3..=4));
    replicas.mark_down(|node| node != NodeId(1));
    let mut store = Store::new(needs, replicas);
    store.step(StoreEvent::Started, &mut effects);
    assert_eq!(effects, [ask(1, 1), ask(2, 2)], "no fallback is up");
}

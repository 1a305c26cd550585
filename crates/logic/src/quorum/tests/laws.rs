//! Laws of quorums in every order of events: compares the state machines with a naive model that
//! keeps all events and recomputes everything each time.

use super::Words;
use crate::quorum::{
    Fetch, FetchEffect, FetchEvent, FetchNeeds, Fetched, Replicas, Store, StoreEffect, StoreEvent,
    StoreNeeds, Stored, Versions,
};
use base::{NodeId, Share, Shortfall};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Next event of one of the nodes.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Good,
    Nothing,
    Failed,
    Late,
    OutOfTime,
}

fn happening() -> impl Strategy<Value = (Happening, u64, u8)> {
    let what = prop_oneof![
        8 => Just(Happening::Good),
        4 => Just(Happening::Nothing),
        4 => Just(Happening::Failed),
        2 => Just(Happening::Late),
        1 => Just(Happening::OutOfTime),
    ];
    (what, 1..9_u64, 0..4_u8)
}

/// Primaries 1 to n, then fallbacks, some of both down.
fn replicas() -> impl Strategy<Value = Replicas> {
    let down = proptest::collection::btree_set((1..9_u64).prop_map(NodeId), 0..4);
    (1..6_u64, 0..4_u64, down).prop_map(|(primaries, fallbacks, down)| Replicas {
        primaries: (1..=primaries).map(NodeId).collect(),
        fallbacks: (primaries + 1..=primaries + fallbacks).map(NodeId).collect(),
        down,
    })
}

/// Record of the nodes that were asked, by the effects.
#[derive(Default)]
struct Ledger {
    asked: BTreeMap<NodeId, Option<NodeId>>,
    /// Nodes that have answered finally.
    closed: BTreeSet<NodeId>,
}

impl Ledger {
    fn ask(&mut self, node: NodeId, instead_of: Option<NodeId>, replicas: &Replicas) {
        assert_eq!(self.asked.insert(node, instead_of), None, "node {node} is asked once");
        match instead_of {
            None => assert!(replicas.primaries.contains(&node)),
            Some(primary) => {
                assert!(replicas.primaries.contains(&primary));
                assert!(replicas.fallbacks.contains(&node) && !replicas.down.contains(&node));
            }
        }
    }

    fn is_open(&self, node: NodeId) -> bool {
        self.asked.contains_key(&node) && !self.closed.contains(&node)
    }

    fn open(&self) -> Vec<NodeId> {
        self.asked.keys().copied().filter(|node| self.is_open(*node)).collect()
    }
}

fn short(share: Share, got: usize, needed: u8) -> Option<Shortfall> {
    (got < usize::from(needed)).then_some(Shortfall { share, got: got as u8, needed })
}

fn primaries(replicas: &Replicas, nodes: &[NodeId]) -> usize {
    nodes.iter().filter(|node| replicas.primaries.contains(node)).count()
}

/// Returns the requirement that these nodes do not meet. `None`: all are met.
fn read_short(needs: &FetchNeeds, replicas: &Replicas, nodes: &[NodeId]) -> Option<Shortfall> {
    short(Share::R, nodes.len(), needs.r)
        .or(short(Share::Pr, primaries(replicas, nodes), needs.pr))
        .or(short(Share::NodeConfirms, nodes.len(), needs.node_confirms))
}

/// Returns the answer that a read must give now. `None`: none yet.
fn read_twin(
    needs: &FetchNeeds,
    replicas: &Replicas,
    heard: &BTreeMap<NodeId, Option<Words>>,
    open: &[NodeId],
    in_time: bool,
) -> Option<Fetched<Words>> {
    let all: Vec<_> = heard.keys().copied().collect();
    let has = |node: &NodeId| needs.notfound_ok || heard[node].is_some();
    let counted: Vec<_> = all.iter().copied().filter(has).collect();
    let merged = merged(heard);
    if read_short(needs, replicas, &counted).is_none() {
        return Some(merged.map_or(Fetched::Nothing, Fetched::Found));
    }
    if merged.is_none() && needs.nothing_at.is_some_and(|at| all.len() >= usize::from(at)) {
        return Some(Fetched::Nothing);
    }
    let with = |known: &[NodeId]| [known, open].concat();
    let hopeless = read_short(needs, replicas, &with(&counted))?;
    if merged.is_none() {
        if read_short(needs, replicas, &all).is_none() {
            return Some(Fetched::Nothing);
        }
        read_short(needs, replicas, &with(&all))?;
    }
    let got = match hopeless.share {
        Share::Pr => primaries(replicas, &counted),
        _ => counted.len(),
    };
    let short = Shortfall { got: got as u8, ..hopeless };
    Some(if in_time { Fetched::TooFew(short) } else { Fetched::OutOfTime(short) })
}

fn merged(heard: &BTreeMap<NodeId, Option<Words>>) -> Option<Words> {
    heard.values().flatten().cloned().reduce(|mut one, other| {
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
    fn a_read_answers_what_its_twin_answers(
        replicas in replicas(),
        (r, pr, node_confirms) in (1..5_u8, 0..4_u8, 0..4_u8),
        nothing_at in proptest::option::of(1..4_u8),
        notfound_ok: bool,
        happenings in proptest::collection::vec(happening(), 0..24),
    ) {
        let needs = FetchNeeds { r, pr, node_confirms, nothing_at, notfound_ok };
        let mut fetch = Fetch::new(needs, replicas.clone());
        let mut ledger = Ledger::default();
        let mut heard = BTreeMap::new();
        let mut done = None;
        let mut finished = false;
        let times = happenings.len();
        let begun = (FetchEvent::Begun, true);
        let last = [(Happening::OutOfTime, 0, 0)];
        let events = happenings.into_iter().chain(last).map(|(what, node, word)| {
            let by = NodeId(node);
            let word = Words([format!("w{word}")].into());
            match what {
                Happening::Good => (FetchEvent::Answered { by, versions: Some(word) }, true),
                Happening::Nothing => (FetchEvent::Answered { by, versions: None }, true),
                Happening::Failed => (FetchEvent::Failed { by }, true),
                Happening::Late => (FetchEvent::Late { by }, true),
                Happening::OutOfTime => (FetchEvent::OutOfTime, false),
            }
        });
        for (event, in_time) in std::iter::once(begun).chain(events) {
            match &event {
                FetchEvent::Answered { by, versions } if ledger.is_open(*by) && !finished => {
                    ledger.closed.insert(*by);
                    heard.insert(*by, versions.clone());
                }
                FetchEvent::Failed { by } if ledger.is_open(*by) => {
                    ledger.closed.insert(*by);
                }
                FetchEvent::OutOfTime => ledger.closed.extend(ledger.asked.keys()),
                _ => {}
            }
            let mut effects = Vec::new();
            fetch.step(event, &mut effects);
            prop_assert!(!finished || effects.is_empty(), "nothing comes after the end");
            for effect in &effects {
                if let FetchEffect::Ask { node, instead_of } = effect {
                    ledger.ask(*node, *instead_of, &replicas);
                }
            }
            let open = ledger.open();
            if done.is_none() {
                let expected = read_twin(&needs, &replicas, &heard, &open, in_time);
                let told = effects.iter().find_map(|effect| match effect {
                    FetchEffect::Done(outcome) => Some(outcome.clone()),
                    _ => None,
                });
                prop_assert_eq!(&told, &expected);
                done = told;
            }
            let ends = effects.contains(&FetchEffect::Finished);
            prop_assert_eq!(ends, open.is_empty() && !finished);
            if ends {
                check_repairs(&effects, &replicas, &heard)?;
            }
            finished |= ends;
        }
        prop_assert!(finished && fetch.is_finished() && done.is_some(), "{} events", times);
    }

    #[test]
    fn a_write_answers_what_its_twin_answers(
        replicas in replicas(),
        (w, dw, pw, node_confirms) in (1..5_u8, 1..4_u8, 0..4_u8, 0..4_u8),
        happenings in proptest::collection::vec(happening(), 0..24),
    ) {
        let needs = StoreNeeds { w, dw, pw, node_confirms };
        let mut store = Store::new(needs, replicas.clone());
        let mut ledger = Ledger::default();
        let (mut taken, mut stored) = (BTreeSet::new(), BTreeSet::new());
        let (mut done, mut finished) = (false, false);
        let last = [(Happening::OutOfTime, 0, 0)];
        let events = happenings.into_iter().chain(last).map(|(what, node, _)| {
            let by = NodeId(node);
            match what {
                Happening::Good => StoreEvent::Stored { by },
                Happening::Nothing => StoreEvent::Taken { by },
                Happening::Failed => StoreEvent::Failed { by },
                Happening::Late => StoreEvent::Late { by },
                Happening::OutOfTime => StoreEvent::OutOfTime,
            }
        });
        for event in std::iter::once(StoreEvent::Begun).chain(events) {
            match event {
                StoreEvent::Taken { by } if ledger.is_open(by) => {
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
                StoreEvent::OutOfTime => ledger.closed.extend(ledger.asked.keys()),
                _ => {}
            }
            let mut effects = Vec::new();
            store.step(event, &mut effects);
            prop_assert!(!finished || effects.is_empty(), "nothing comes after the end");
            for effect in &effects {
                if let StoreEffect::Ask { node, instead_of } = effect {
                    ledger.ask(*node, *instead_of, &replicas);
                }
            }
            let open = ledger.open();
            if !done {
                let sets = (&taken, &stored);
                let expected = write_twin(&needs, &replicas, sets, &open, event);
                let told = effects.iter().find_map(|effect| match effect {
                    StoreEffect::Done(outcome) => Some(*outcome),
                    _ => None,
                });
                prop_assert_eq!(told, expected);
                done = told.is_some();
            }
            let ends = effects.contains(&StoreEffect::Finished);
            prop_assert_eq!(ends, open.is_empty() && !finished);
            finished |= ends;
            prop_assert_eq!(store.stored(), stored.len());
        }
        prop_assert!(finished && store.is_finished() && done);
    }
}

/// Checks that exactly the primaries with less than all answers are repaired.
fn check_repairs(
    effects: &[FetchEffect<Words>],
    replicas: &Replicas,
    heard: &BTreeMap<NodeId, Option<Words>>,
) -> Result<(), TestCaseError> {
    let all = merged(heard);
    let behind = heard.iter().filter(|(node, versions)| {
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

fn write_short(
    needs: &StoreNeeds,
    replicas: &Replicas,
    taken: usize,
    stored: &[NodeId],
) -> Option<Shortfall> {
    short(Share::W, taken, needs.w)
        .or(short(Share::Dw, stored.len(), needs.dw))
        .or(short(Share::Pw, primaries(replicas, stored), needs.pw))
        .or(short(Share::NodeConfirms, stored.len(), needs.node_confirms))
}

/// Returns the answer that a write must give now. `None`: none yet.
fn write_twin(
    needs: &StoreNeeds,
    replicas: &Replicas,
    (taken, stored): (&BTreeSet<NodeId>, &BTreeSet<NodeId>),
    open: &[NodeId],
    event: StoreEvent,
) -> Option<Stored> {
    let have: Vec<_> = stored.iter().copied().collect();
    let Some(short) = write_short(needs, replicas, taken.len(), &have) else {
        return Some(Stored::Enough);
    };
    if event == StoreEvent::OutOfTime {
        return Some(Stored::OutOfTime(short));
    }
    let hoped = [&have[..], open].concat();
    let hopeless = write_short(needs, replicas, hoped.len(), &hoped)?;
    let got = match hopeless.share {
        Share::W => taken.len(),
        Share::Pw => primaries(replicas, &have),
        _ => have.len(),
    };
    Some(Stored::TooFew(Shortfall { got: got as u8, ..hopeless }))
}

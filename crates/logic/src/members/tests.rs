//! Stories and laws of the failure detector.

use super::{Effect, Event, FailureDetector, Health};
use base::{Millis, NodeId};
use goldenscript::{Command, Context, Runner};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::error::Error;

macro_rules! stories {
    ($($name:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/members/stories/");
            let path = format!("{folder}{}.txt", stringify!($name));
            goldenscript::run(&mut Stage::default(), path).expect("the story is played to its end");
        }
    )* };
}

stories!(
    answers_pings_but_no_requests,
    comes_and_goes,
    link_breaks_and_comes_back,
    slower_than_all_others,
    stranger,
);

#[derive(Default)]
struct Stage {
    detector: FailureDetector,
    now: Millis,
}

impl Runner for Stage {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        if let Some(now) = args.take_key("now") {
            self.now = Millis(now.parse()?);
        }
        let after = Millis(args.take_key("after").unwrap_or("1").parse()?);
        let times: usize = args.take_key("times").unwrap_or("1").parse()?;
        let list = std::iter::from_fn(|| args.next_pos().map(str::parse));
        let nodes: Vec<_> = list.map(|node| node.map(NodeId)).collect::<Result<_, _>>()?;
        args.reject_next()?;
        let now = self.now;
        let mut effects = Vec::new();
        let events: Vec<Event> = match command.name.as_str() {
            "members" => vec![Event::Members { nodes: nodes.into_iter().collect(), now }],
            "tick" => vec![Event::Tick { now }],
            name => {
                let event = |node| match name {
                    "connected" => Ok(Event::Connected { node }),
                    "broken" => Ok(Event::Disconnected { node, now }),
                    "answered" => Ok(Event::Answered { node, after, now }),
                    "failed" => Ok(Event::Failed { node, now }),
                    "unanswered" => Ok(Event::Unanswered { node, after, now }),
                    other => Err(format!("no story knows the command {other}")),
                };
                nodes.into_iter().map(event).collect::<Result<_, _>>()?
            }
        };
        for event in events.iter().cycle().take(events.len() * times) {
            self.detector.step(event.clone(), &mut effects);
        }
        Ok(effects.iter().map(effect_text).collect())
    }
}

fn effect_text(effect: &Effect) -> String {
    match effect {
        Effect::Changed { node, to } => format!("node {} is {to:?}\n", node.0),
        Effect::Probe { node } => format!("probe {}\n", node.0),
    }
}

/// A detector at rest needs no ticks; any suspicion ends the rest until it is settled.
#[test]
fn detector_at_rest_is_unchanged_by_time() {
    let mut detector = FailureDetector::new();
    let step = |detector: &mut FailureDetector, event| {
        let mut effects = Vec::new();
        detector.step(event, &mut effects);
        effects
    };
    let (node, nodes) = (NodeId(2), BTreeSet::from([NodeId(2), NodeId(3)]));
    step(&mut detector, Event::Members { nodes, now: Millis(0) });
    assert!(!detector.is_at_rest(), "no link has begun, and the time for that runs");
    step(&mut detector, Event::Connected { node });
    step(&mut detector, Event::Connected { node: NodeId(3) });
    assert!(detector.is_at_rest());
    assert_eq!(step(&mut detector, Event::Tick { now: Millis(1 << 40) }), vec![]);
    let now = Millis(1 << 41);
    (0..3).for_each(|_| drop(step(&mut detector, Event::Failed { node, now })));
    assert!(!detector.is_at_rest(), "it is to be probed");
    step(&mut detector, Event::Disconnected { node, now });
    assert!(!detector.is_at_rest(), "it is a suspect, and will be down");
    let now = Millis(now.0 + 1_000);
    let down = Effect::Changed { node, to: Health::Down };
    assert_eq!(step(&mut detector, Event::Tick { now }), [down]);
    assert!(detector.is_at_rest());
    assert_eq!(step(&mut detector, Event::Tick { now: Millis(1 << 50) }), vec![]);
}

fn event() -> impl Strategy<Value = (u8, u64, u64, u64)> {
    (0..12_u8, 1..5_u64, 0..2_000_u64, 0..700_u64)
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) }
}

proptest! {
    #![proptest_config(cases())]

    /// Checks any observations in any order: a node without a link is not up; every change is
    /// reported once; and when all is well again, all are trusted again within a minute.
    #[test]
    fn failure_detector_suspects_only_on_evidence_and_recovers(
        events in proptest::collection::vec(event(), 0..200),
    ) {
        let mut detector = FailureDetector::new();
        let nodes: BTreeSet<_> = (1..5).map(NodeId).collect();
        let mut linked = BTreeSet::new();
        let mut evidence = BTreeSet::new();
        let mut reported: std::collections::BTreeMap<_, _> =
            nodes.iter().map(|node| (*node, Health::Suspect)).collect();
        let mut now = Millis(0);
        let mut effects = Vec::new();
        detector.step(Event::Members { nodes: nodes.clone(), now }, &mut effects);
        for (kind, node, after, elapsed) in events {
            let (node, after) = (NodeId(node), Millis(after));
            now = Millis(now.0 + elapsed);
            let event = match kind {
                0..=1 => {
                    linked.insert(node);
                    Event::Connected { node }
                }
                2 => {
                    linked.remove(&node);
                    Event::Disconnected { node, now }
                }
                3..=6 => {
                    if after.0 > 100 {
                        evidence.insert(node);
                    }
                    Event::Answered { node, after, now }
                }
                7 | 8 => {
                    evidence.insert(node);
                    Event::Failed { node, now }
                }
                9 => {
                    evidence.insert(node);
                    Event::Unanswered { node, after, now }
                }
                _ => Event::Tick { now },
            };
            effects.clear();
            detector.step(event, &mut effects);
            for effect in &effects {
                if let Effect::Changed { node, to } = effect {
                    prop_assert_ne!(reported.insert(*node, *to), Some(*to), "told twice");
                }
            }
            for (node, standing) in detector.all() {
                prop_assert_eq!(reported[&node], standing, "every change is told");
                prop_assert!(standing != Health::Up || linked.contains(&node));
                let is_unsuspicious = linked.contains(&node) && !evidence.contains(&node);
                prop_assert!(!is_unsuspicious || standing == Health::Up, "{node} is {standing:?}");
            }
        }
        for node in &nodes {
            detector.step(Event::Connected { node: *node }, &mut effects);
        }
        for _ in 0..120 {
            now = Millis(now.0 + 500);
            effects.clear();
            detector.step(Event::Tick { now }, &mut effects);
            for effect in effects.clone() {
                if let Effect::Probe { node } = effect {
                    detector.step(Event::Answered { node, after: Millis(1), now }, &mut effects);
                }
            }
        }
        prop_assert_eq!(detector.down_nodes(), BTreeSet::new());
    }
}

//! Runner of `stories/*.txt`: one request per file, each effect recorded.

use super::{Words, nodes};
use crate::quorum::{
    Fetch, FetchEffect, FetchEvent, FetchNeeds, FetchOutcome, Replicas, Store, StoreEffect,
    StoreEvent, StoreNeeds, StoreOutcome,
};
use base::NodeId;
use goldenscript::{ArgumentConsumer, Command, Context, Runner};
use std::error::Error;
use std::fmt::Write;

macro_rules! stories {
    ($($name:ident),* $(,)?) => { $(
        #[test]
        fn $name() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/quorum/stories/");
            let path = format!("{folder}{}.txt", stringify!($name));
            goldenscript::run(&mut Stage::default(), path).expect("the story is played to its end");
        }
    )* };
}

stories!(
    all_three_answer,
    answers_late_and_twice,
    basic_quorum,
    fewer_nodes_than_copies,
    found_by_one_only,
    nobody_stands_in,
    nothing_found,
    one_of_three_is_down,
    primaries_are_asked_for,
    repaired_who_was_behind,
    stored_at_all_though_two_are_enough,
    taken_but_not_synced,
    time_is_up,
    too_few_are_left,
    two_nodes_must_confirm,
);

type StoryResult = Result<String, Box<dyn Error>>;

/// Request of a story; absent before `fetch` or `store`.
#[derive(Default)]
enum Stage {
    #[default]
    Empty,
    Fetch(Fetch<Words>),
    Store(Store),
}

impl Runner for Stage {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> StoryResult {
        let mut args = command.consume_args();
        match command.name.as_str() {
            "fetch" => {
                let (needs, (replicas, down)) = (fetch_needs(&mut args)?, replicas(&mut args)?);
                let mut fetch = Fetch::new(needs, replicas);
                fetch.mark_down(|node| down.contains(&node));
                *self = Stage::Fetch(fetch);
            }
            "store" => {
                let (needs, (replicas, down)) = (store_needs(&mut args)?, replicas(&mut args)?);
                let mut store = Store::new(needs, replicas);
                store.mark_down(|node| down.contains(&node));
                *self = Stage::Store(store);
            }
            _ => {}
        }
        let by = args.next_pos().map(|by| by.parse().map(NodeId)).transpose()?;
        let by = |name: &str| by.ok_or(format!("{name} whom?"));
        let words = std::iter::from_fn(|| args.next_pos().map(String::from)).collect();
        args.reject_next()?;
        let name = command.name.as_str();
        match self {
            Stage::Empty => Err("fetch or store first".into()),
            Stage::Fetch(fetch) => {
                let event = match name {
                    "fetch" => FetchEvent::Started,
                    "answered" => {
                        FetchEvent::Answered { by: by(name)?, versions: Some(Words(words)) }
                    }
                    "nothing" => FetchEvent::Answered { by: by(name)?, versions: None },
                    "failed" => FetchEvent::Failed { by: by(name)? },
                    "late" => FetchEvent::Late { by: by(name)? },
                    "out_of_time" => FetchEvent::TimedOut,
                    other => return Err(format!("no read knows {other}").into()),
                };
                let mut effects = Vec::new();
                fetch.step(event, &mut effects);
                Ok(effects.iter().map(fetch_effect_text).collect())
            }
            Stage::Store(store) => {
                let event = match name {
                    "store" => StoreEvent::Started,
                    "taken" => StoreEvent::Accepted { by: by(name)? },
                    "stored" => StoreEvent::Stored { by: by(name)? },
                    "failed" => StoreEvent::Failed { by: by(name)? },
                    "late" => StoreEvent::Late { by: by(name)? },
                    "out_of_time" => StoreEvent::TimedOut,
                    other => return Err(format!("no write knows {other}").into()),
                };
                let mut effects = Vec::new();
                store.step(event, &mut effects);
                Ok(effects.iter().map(store_effect_text).collect())
            }
        }
    }
}

/// `primaries=1,2,3 fallbacks=4,5 down=2`
fn replicas(args: &mut ArgumentConsumer<'_>) -> Result<(Replicas, Vec<NodeId>), Box<dyn Error>> {
    let mut list = |name| nodes(args.take_key(name).unwrap_or(""));
    let down = list("down")?;
    let mut replicas = Replicas::new(list("primaries")?, list("fallbacks")?);
    replicas.mark_down(|node| down.contains(&node));
    Ok((replicas, down))
}

/// `r=2 pr=0 node_confirms=0 notfound_quorum=2 notfound_ok=false`
fn fetch_needs(args: &mut ArgumentConsumer<'_>) -> Result<FetchNeeds, Box<dyn Error>> {
    Ok(FetchNeeds {
        r: number(args, "r", "2")?,
        pr: number(args, "pr", "0")?,
        node_confirms: number(args, "node_confirms", "0")?,
        notfound_quorum: args.take_key("notfound_quorum").map(str::parse).transpose()?,
        notfound_ok: args.take_key("notfound_ok").unwrap_or("true").parse()?,
    })
}

fn number(
    args: &mut ArgumentConsumer<'_>,
    name: &str,
    default: &str,
) -> Result<u8, std::num::ParseIntError> {
    args.take_key(name).unwrap_or(default).parse()
}

/// `w=2 dw=1 pw=0 node_confirms=0`
fn store_needs(args: &mut ArgumentConsumer<'_>) -> Result<StoreNeeds, Box<dyn Error>> {
    Ok(StoreNeeds {
        w: number(args, "w", "2")?,
        dw: number(args, "dw", "1")?,
        pw: number(args, "pw", "0")?,
        node_confirms: number(args, "node_confirms", "0")?,
    })
}

fn ask_text(node: NodeId, instead_of: Option<NodeId>) -> String {
    match instead_of {
        None => format!("Ask {}\n", node.0),
        Some(primary) => format!("Ask {} instead of {}\n", node.0, primary.0),
    }
}

fn fetch_effect_text(effect: &FetchEffect<Words>) -> String {
    let joined = |words: &Words| {
        words.0.iter().fold(String::new(), |mut text, word| {
            let _ = write!(text, " {word}");
            text
        })
    };
    match effect {
        FetchEffect::Ask { node, fallback_for } => ask_text(*node, *fallback_for),
        FetchEffect::Done(FetchOutcome::Found(words)) => format!("Done: found{}\n", joined(words)),
        FetchEffect::Done(FetchOutcome::NotFound) => "Done: nothing\n".into(),
        FetchEffect::Done(FetchOutcome::TooFew(short)) => format!("Done: too few, {short}\n"),
        FetchEffect::Done(FetchOutcome::TimedOut(short)) => format!("Done: out of time, {short}\n"),
        FetchEffect::Repair { node, versions } => {
            format!("Repair {}:{}\n", node.0, joined(versions))
        }
        FetchEffect::Finished => "Finished\n".into(),
    }
}

fn store_effect_text(effect: &StoreEffect) -> String {
    match effect {
        StoreEffect::Ask { node, fallback_for } => ask_text(*node, *fallback_for),
        StoreEffect::Done(StoreOutcome::Enough) => "Done: stored\n".into(),
        StoreEffect::Done(StoreOutcome::TooFew(short)) => format!("Done: too few, {short}\n"),
        StoreEffect::Done(StoreOutcome::TimedOut(short)) => format!("Done: out of time, {short}\n"),
        StoreEffect::Finished => "Finished\n".into(),
    }
}

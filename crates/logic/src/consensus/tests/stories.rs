//! Runner of `stories/*.txt`: one situation per file, each effect recorded.

use super::machine::{Identity, Machine, Record};
use crate::consensus::{
    Effect, EntrySize, Event, LeaseClock, Message, ReadToken, Refusal, RefusedCall,
};
use base::{Ballot, LogIndex, Millis, NodeId};
use goldenscript::{Command, Context, Runner};
use std::error::Error;
use std::fmt::Write;

stories!(
    starts_afresh,
    starts_with_an_accepted_tail,
    crash_between_save_and_decide,
    crash_takes_what_was_not_synced,
    crash_before_the_promise_is_saved,
    two_values_in_flight,
    saved_late_or_twice,
    saved_that_was_never_asked_for,
    reads_before_and_after_leadership,
    reads_without_a_lease,
    proposals_refused,
    window_is_full,
    retires_with_values_in_flight,
    retires_before_it_leads,
    nobody_to_hand_over_to,
    idle_master_records_what_is_decided,
);

/// Machine of a story; absent before `begin`.
#[derive(Default)]
struct Stage {
    machine: Option<Machine>,
    now: Millis,
}

type StoryResult = Result<String, Box<dyn Error>>;

impl Runner for Stage {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> StoryResult {
        self.play(command).map(|text| with_short_ids(&text))
    }
}

/// Removes leading zeros from the ids of nodes, which stories number from 1.
pub fn with_short_ids(text: &str) -> String {
    text.replace("000000000000000", "")
}

impl Stage {
    fn play(&mut self, command: &Command) -> StoryResult {
        let mut args = command.consume_args();
        if let Some(now) = args.take_key("now") {
            self.now = Millis(now.parse()?);
        }
        let now = self.now;
        if command.name == "begin" {
            return self.begin(args);
        }
        let mut positional = || args.next_pos().ok_or("an argument is missing");
        let event = match command.name.as_str() {
            "start" => Event::Started { now },
            "tick" => Event::Tick { now },
            "promise_saved" => Event::PromiseSaved { ballot: ballot(positional()?)? },
            "saved" => Event::Saved {
                ballot: ballot(positional()?)?,
                last: LogIndex(positional()?.parse()?),
            },
            "read" => Event::Read { token: ReadToken(positional()?.parse()?), now },
            "hand_over" => Event::HandOver { to: NodeId(positional()?.parse()?), now },
            "retire" => Event::Retire,
            "propose" => return self.propose(args),
            "sync" => return self.sync(args),
            "crash" => return self.crash(args),
            "log" => return Ok(log_text(self.machine()?)),
            other => return Err(format!("no story knows the command {other}").into()),
        };
        args.reject_next()?;
        Ok(effects_text(self.machine()?.step(event)))
    }

    fn machine(&mut self) -> Result<&mut Machine, Box<dyn Error>> {
        self.machine.as_mut().ok_or_else(|| "begin first".into())
    }

    /// `begin [accepted=BALLOT last=N decided=N] [lease=MS] [drift=PPM]`
    fn begin(&mut self, mut args: goldenscript::ArgumentConsumer) -> StoryResult {
        let under = args.take_key("accepted").map_or(Ok(Ballot::default()), ballot)?;
        let last: u64 = args.take_key("last").unwrap_or("0").parse()?;
        let decided = LogIndex(args.take_key("decided").unwrap_or("0").parse()?);
        let mut lease = LeaseClock::default();
        if let Some(length) = args.take_key("lease") {
            lease.length = Millis(length.parse()?);
        }
        if let Some(drift) = args.take_key("drift") {
            lease.drift_ppm = drift.parse()?;
        }
        args.reject_next()?;
        let mut records = Vec::new();
        if under > Ballot::default() {
            records.push(Record::Promise(under));
            records.push(Record::Adopt(under, LogIndex(0), LogIndex(0)));
            let accept = |index| Record::Accept(LogIndex(index), under, LogIndex(0), index);
            records.extend((1..=last).map(accept));
            records.push(Record::Decided(decided));
        }
        let identity = Identity { lease, ..Identity::sole_member() };
        let machine = Machine::from_log(records, Vec::new(), identity)?;
        let text = memory_text(&machine);
        self.machine = Some(machine);
        Ok(text)
    }

    /// `propose [bytes=N] [updates=N] [times=N]`; of many, only the last one's effects are
    /// recorded.
    fn propose(&mut self, mut args: goldenscript::ArgumentConsumer) -> StoryResult {
        let bytes = args.take_key("bytes").unwrap_or("100").parse()?;
        let updates = args.take_key("updates").unwrap_or("1").parse()?;
        let times: u64 = args.take_key("times").unwrap_or("1").parse()?;
        args.reject_next()?;
        let machine = self.machine()?;
        for _ in 0..times {
            machine.step(Event::Propose { size: EntrySize { bytes, updates } });
        }
        Ok(effects_text(&machine.effects))
    }

    /// `sync [count]`: syncs all written records, or this many, and notifies the replica.
    fn sync(&mut self, mut args: goldenscript::ArgumentConsumer) -> StoryResult {
        let count = args.next_pos().map_or(Ok(usize::MAX), str::parse)?;
        args.reject_next()?;
        let machine = self.machine()?;
        let mut text = String::new();
        for event in machine.sync(count) {
            match event {
                Event::PromiseSaved { ballot } => writeln!(text, "(promise {ballot} saved)")?,
                Event::Saved { ballot, last } => {
                    writeln!(text, "(saved up to {last} under {ballot})")?;
                }
                _ => unreachable!("a sync saves, and nothing else"),
            }
            text.push_str(&effects_text(machine.step(event)));
        }
        Ok(text)
    }

    /// `crash [kept=N]`: keeps the synced records and this many of the others; the node comes back,
    /// not started yet.
    fn crash(&mut self, mut args: goldenscript::ArgumentConsumer) -> StoryResult {
        let kept = args.take_key("kept").unwrap_or("0").parse()?;
        args.reject_next()?;
        let machine =
            self.machine.take().ok_or("begin first")?.crash(kept, Identity::sole_member());
        let text = memory_text(&machine);
        self.machine = Some(machine);
        Ok(text)
    }
}

fn ballot(text: &str) -> Result<Ballot, Box<dyn Error>> {
    let (round, node) = text.split_once('.').ok_or("a ballot is ROUND.NODE")?;
    Ok(Ballot { round: round.parse()?, node: NodeId(node.parse()?) })
}

fn memory_text(machine: &Machine) -> String {
    let Machine { replica, values, .. } = machine;
    format!(
        "remembers: promised {}, accepted {} value(s) under {}, decided {}",
        replica.promised(),
        values.len(),
        replica.accepted_ballot(),
        replica.decided()
    )
}

fn log_text(machine: &mut Machine) -> String {
    let mut text = String::new();
    for (place, record) in machine.records.iter().enumerate() {
        let state = if place < machine.synced { "synced" } else { "written" };
        let record = match record {
            Record::Promise(ballot) => format!("promise {ballot}"),
            Record::Stage(index, ballot, value) => {
                format!("stage {index} under {ballot}: value {value}")
            }
            Record::Adopt(ballot, _, last) => format!("adopt up to {last} under {ballot}"),
            Record::Accept(index, ballot, decided, value) => {
                format!("accept {index} under {ballot}, decided {decided}: value {value}")
            }
            Record::Decided(last) => format!("decided {last}"),
            Record::Torn(tear) => format!("torn at {}", tear.0),
            Record::OpenTear(None) => "whole".into(),
            Record::OpenTear(Some(tear)) => format!("still torn at {}", tear.0),
        };
        writeln!(text, "{state}: {record}").expect("a string takes all");
    }
    text
}

fn effects_text(effects: &[Effect]) -> String {
    effects.iter().map(|effect| effect_text(effect) + "\n").collect()
}

pub fn effect_text(effect: &Effect) -> String {
    match effect {
        Effect::SavePromise { ballot } => format!("SavePromise {ballot}"),
        Effect::Stage { index, ballot } => format!("Stage {index} under {ballot}"),
        Effect::Adopt { ballot, from, last } if from == last => {
            format!("Adopt up to {last} under {ballot}")
        }
        Effect::Adopt { ballot, from, last } => {
            format!("Adopt up to {last} under {ballot}, staged behind {from}")
        }
        Effect::Save { index, ballot, decided } => {
            format!("Save {index} under {ballot}, decided {decided}")
        }
        Effect::Send { to, message } => format!("Send to {to}: {}", message_text(message)),
        Effect::Configured { configuration, base } => {
            format!("Configured {configuration} behind {base}")
        }
        Effect::Ended => "Ended".into(),
        Effect::FetchSnapshot { from } => format!("FetchSnapshot from {from}"),
        Effect::SaveDecided { last } => format!("SaveDecided {last}"),
        Effect::Decided { last } => format!("Decided {last}"),
        Effect::Role { role, ballot, master } => {
            let master = master.map_or("nobody".into(), |node| format!("node {node}"));
            format!("Role {} under {ballot}, master is {master}", role.name())
        }
        Effect::ReadAt { token, index } => format!("ReadAt {index} for read {}", token.0),
        Effect::Refused { call, reason } => {
            let call = match call {
                RefusedCall::Propose => "the value".into(),
                RefusedCall::Read(token) => format!("read {}", token.0),
                RefusedCall::HandOver(to) => format!("hand-over to node {to}"),
            };
            format!("Refused {call}: {}", refusal_text(reason))
        }
        Effect::PossibleLoss { after } => format!("May lack what was behind {after}"),
    }
}

fn message_text(message: &Message) -> String {
    format!("{:?} under {}", message.body, message.ballot)
}

fn refusal_text(refusal: &Refusal) -> String {
    format!("{refusal:?} ({})", refusal.reason().name())
}

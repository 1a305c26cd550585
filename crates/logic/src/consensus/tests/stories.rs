//! Runner of `stories/*.txt`: one situation per file, each effect recorded.

use super::machine::{Identity, Machine, Record};
use crate::consensus::{
    Effect, Event, LeaseClock, Message, ReadToken, Refusal, RefusedCall, ValueHandle,
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

type Answer = Result<String, Box<dyn Error>>;

impl Runner for Stage {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> Answer {
        self.play(command).map(|told| with_short_ids(&told))
    }
}

/// Removes leading zeros from the ids of nodes, which stories number from 1.
pub fn with_short_ids(told: &str) -> String {
    told.replace("000000000000000", "")
}

impl Stage {
    fn play(&mut self, command: &Command) -> Answer {
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
                upto: LogIndex(positional()?.parse()?),
            },
            "read" => Event::Read { token: ReadToken(positional()?.parse()?), now },
            "hand_over" => Event::HandOver { to: NodeId(positional()?.parse()?), now },
            "retire" => Event::Retire,
            "propose" => return self.propose(args),
            "sync" => return self.sync(args),
            "crash" => return self.crash(args),
            "log" => return Ok(tell_log(self.machine()?)),
            other => return Err(format!("no story knows the command {other}").into()),
        };
        args.reject_next()?;
        Ok(tell(self.machine()?.step(event)))
    }

    fn machine(&mut self) -> Result<&mut Machine, Box<dyn Error>> {
        self.machine.as_mut().ok_or_else(|| "begin first".into())
    }

    /// `begin [accepted=BALLOT last=N decided=N] [lease=MS] [drift=PPM]`
    fn begin(&mut self, mut args: goldenscript::ArgumentConsumer) -> Answer {
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
        let identity = Identity { lease, ..Identity::alone() };
        let machine = Machine::from_log(records, Vec::new(), identity)?;
        let told = tell_memory(&machine);
        self.machine = Some(machine);
        Ok(told)
    }

    /// `propose [bytes=N] [updates=N] [times=N]`; of many, only the last one's effects are
    /// recorded.
    fn propose(&mut self, mut args: goldenscript::ArgumentConsumer) -> Answer {
        let bytes = args.take_key("bytes").unwrap_or("100").parse()?;
        let updates = args.take_key("updates").unwrap_or("1").parse()?;
        let times: u64 = args.take_key("times").unwrap_or("1").parse()?;
        args.reject_next()?;
        let machine = self.machine()?;
        for _ in 0..times {
            machine.step(Event::Propose { value: ValueHandle { bytes, updates } });
        }
        Ok(tell(&machine.effects))
    }

    /// `sync [count]`: syncs all written records, or this many, and notifies the replica.
    fn sync(&mut self, mut args: goldenscript::ArgumentConsumer) -> Answer {
        let count = args.next_pos().map_or(Ok(usize::MAX), str::parse)?;
        args.reject_next()?;
        let machine = self.machine()?;
        let mut told = String::new();
        for event in machine.sync(count) {
            match event {
                Event::PromiseSaved { ballot } => writeln!(told, "(promise {ballot} saved)")?,
                Event::Saved { ballot, upto } => {
                    writeln!(told, "(saved up to {upto} under {ballot})")?;
                }
                _ => unreachable!("a sync saves, and nothing else"),
            }
            told.push_str(&tell(machine.step(event)));
        }
        Ok(told)
    }

    /// `crash [kept=N]`: keeps the synced records and this many of the others; the node comes back,
    /// not started yet.
    fn crash(&mut self, mut args: goldenscript::ArgumentConsumer) -> Answer {
        let kept = args.take_key("kept").unwrap_or("0").parse()?;
        args.reject_next()?;
        let machine = self.machine.take().ok_or("begin first")?.crash(kept, Identity::alone());
        let told = tell_memory(&machine);
        self.machine = Some(machine);
        Ok(told)
    }
}

fn ballot(text: &str) -> Result<Ballot, Box<dyn Error>> {
    let (round, node) = text.split_once('.').ok_or("a ballot is ROUND.NODE")?;
    Ok(Ballot { round: round.parse()?, node: NodeId(node.parse()?) })
}

fn tell_memory(machine: &Machine) -> String {
    let Machine { replica, values, .. } = machine;
    format!(
        "remembers: promised {}, accepted {} value(s) under {}, decided {}",
        replica.promised(),
        values.len(),
        replica.accepted_ballot(),
        replica.decided()
    )
}

fn tell_log(machine: &mut Machine) -> String {
    let mut told = String::new();
    for (place, record) in machine.records.iter().enumerate() {
        let state = if place < machine.synced { "synced" } else { "written" };
        let record = match record {
            Record::Promise(ballot) => format!("promise {ballot}"),
            Record::Stage(index, ballot, value) => {
                format!("stage {index} under {ballot}: value {value}")
            }
            Record::Adopt(ballot, _, upto) => format!("adopt up to {upto} under {ballot}"),
            Record::Accept(index, ballot, decided, value) => {
                format!("accept {index} under {ballot}, decided {decided}: value {value}")
            }
            Record::Decided(upto) => format!("decided {upto}"),
            Record::Torn(tear) => format!("torn at {}", tear.0),
            Record::States(None) => "whole".into(),
            Record::States(Some(tear)) => format!("still torn at {}", tear.0),
        };
        writeln!(told, "{state}: {record}").expect("a string takes all");
    }
    told
}

fn tell(effects: &[Effect]) -> String {
    effects.iter().map(|effect| tell_one(effect) + "\n").collect()
}

pub fn tell_one(effect: &Effect) -> String {
    match effect {
        Effect::SavePromise { ballot } => format!("SavePromise {ballot}"),
        Effect::Stage { index, ballot } => format!("Stage {index} under {ballot}"),
        Effect::Adopt { ballot, from, upto } if from == upto => {
            format!("Adopt up to {upto} under {ballot}")
        }
        Effect::Adopt { ballot, from, upto } => {
            format!("Adopt up to {upto} under {ballot}, staged behind {from}")
        }
        Effect::Save { index, ballot, decided } => {
            format!("Save {index} under {ballot}, decided {decided}")
        }
        Effect::Send { to, message } => format!("Send to {to}: {}", tell_message(message)),
        Effect::Configured { configuration, base } => {
            format!("Configured {configuration} behind {base}")
        }
        Effect::Ended => "Ended".into(),
        Effect::FetchSnapshot { from } => format!("FetchSnapshot from {from}"),
        Effect::SaveDecided { upto } => format!("SaveDecided {upto}"),
        Effect::Decided { upto } => format!("Decided {upto}"),
        Effect::Role { role, ballot, master } => {
            let master = master.map_or("nobody".into(), |node| format!("node {node}"));
            format!("Role {} under {ballot}, master is {master}", role.word())
        }
        Effect::ReadAt { token, index } => format!("ReadAt {index} for read {}", token.0),
        Effect::Refused { asked, reason } => {
            let asked = match asked {
                RefusedCall::Propose => "the value".into(),
                RefusedCall::Read(token) => format!("read {}", token.0),
                RefusedCall::HandOver(to) => format!("hand-over to node {to}"),
            };
            format!("Refused {asked}: {}", tell_refusal(reason))
        }
        Effect::MayLack { behind } => format!("May lack what was behind {behind}"),
    }
}

fn tell_message(message: &Message) -> String {
    format!("{:?} under {}", message.body, message.ballot)
}

fn tell_refusal(refusal: &Refusal) -> String {
    format!("{refusal:?} ({})", refusal.reason().word())
}

//! Commands of a story of a group.

use super::world::{Direction, World};
use crate::consensus::tests::stories::with_short_ids;
use crate::consensus::{Configuration, Event, LeaseClock, Member};
use base::{ConfigurationId, Millis, NodeId, Part};
use goldenscript::{ArgumentConsumer, Command, Context, Runner};
use std::error::Error;
use std::fmt::Write;

/// Stage of a story; empty before the command `group`.
#[derive(Default)]
pub struct Stage {
    world: Option<World>,
}

type StoryResult<T = ()> = Result<T, Box<dyn Error>>;

impl Runner for Stage {
    type Command = Command;

    fn run(&mut self, command: &Command, _context: &Context) -> StoryResult<String> {
        let mut args = command.consume_args();
        if command.name == "group" {
            self.world = Some(group(&mut args)?);
        } else {
            let world = self.world.as_mut().ok_or("there is no group yet")?;
            if !run_group_command(world, &command.name, &mut args)? {
                run_node_command(world, &command.name, &mut args)?;
            }
        }
        args.reject_next()?;
        let world = self.world.as_mut().expect("there is one now");
        Ok(with_short_ids(&std::mem::take(&mut world.output)))
    }
}

/// `group NODE... [witness=NODE] [learner=NODE] [other=NODE] [quorum=N] [lease=MS] [drift=PPM]
/// [reads=off]`
fn group(args: &mut ArgumentConsumer) -> StoryResult<World> {
    let mut lease = LeaseClock::default();
    if let Some(length) = args.take_key("lease") {
        lease.length = Millis(length.parse()?);
    }
    if let Some(drift) = args.take_key("drift") {
        lease.drift_ppm = drift.parse()?;
    }
    lease.allows_reads = args.take_key("reads") != Some("off");
    let mut others = Vec::new();
    if let Some(other) = args.take_key("other") {
        others.push(NodeId(other.parse()?));
    }
    let quorum = args.take_key("quorum").map(str::parse).transpose()?;
    let configuration = Configuration::new(ConfigurationId(0), members(args)?)?;
    let mut world = World::new(configuration.with_quorum(quorum)?, &others, lease);
    let names: Vec<_> = world.nodes.keys().copied().collect();
    names.into_iter().for_each(|name| world.start(name));
    Ok(world)
}

/// Parses voters by name, and one witness or learner.
fn members(args: &mut ArgumentConsumer) -> StoryResult<Vec<Member>> {
    let mut members = Vec::new();
    for (key, part) in [("witness", Part::Witness), ("learner", Part::Learner)] {
        if let Some(node) = args.take_key(key) {
            members.push(Member { node: NodeId(node.parse()?), part });
        }
    }
    while let Some(node) = args.next_pos() {
        members.push(Member { node: NodeId(node.parse()?), part: Part::Voter });
    }
    Ok(members)
}

/// Carries out a command on all nodes, or on a pair. Returns false if it is none of these.
fn run_group_command(
    world: &mut World,
    command: &str,
    args: &mut ArgumentConsumer,
) -> StoryResult<bool> {
    match command {
        // run MS: time passes. skip MS: time passes without a record.
        "run" => world.run(args.next_pos().ok_or("run how long?")?.parse()?),
        "skip" => {
            world.run(args.next_pos().ok_or("skip how long?")?.parse()?);
            world.output.clear();
        }
        // all: periodic effects are recorded, too. news: they are not.
        "all" | "news" => world.records_all = command == "all",
        // far MS: latency of a message.
        "far" => world.delay = args.next_pos().ok_or("how far?")?.parse()?,
        // cut A B: nothing passes, either way. cut A: from and to all others. mend: ends all cuts.
        "cut" => {
            let directions = directions(args, world)?;
            world.cut.extend(directions);
        }
        "mend" => world.cut.clear(),
        // unlink A B: the connection between A and B ends, and both learn it. unlink A: with all.
        "unlink" => {
            for (node, other) in directions(args, world)? {
                world.end_link(node, other);
            }
        }
        // hold A B: messages from A to B wait until they are delivered, dropped or released.
        "hold" => drop(world.held.insert(direction(args)?)),
        "release" => drop(world.held.remove(&direction(args)?)),
        "repeat" => world.duplicate(direction(args)?),
        "drop" => world.drop(direction(args)?),
        // deliver A B [N]: delivers the oldest, or all.
        "deliver" => {
            let direction = direction(args)?;
            let count = args.next_pos().map_or(Ok(usize::MAX), str::parse)?;
            world.deliver(direction, count);
        }
        "log" => write_logs(world)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Carries out a command on one node.
fn run_node_command(world: &mut World, command: &str, args: &mut ArgumentConsumer) -> StoryResult {
    let name = node(args)?;
    let now = Millis(world.now);
    let target = world.nodes.get_mut(&name).ok_or("no such node")?;
    match command {
        // propose NODE [times=N]
        "propose" => {
            let times: usize = args.take_key("times").unwrap_or("1").parse()?;
            (0..times).for_each(|_| world.propose(name));
        }
        "read" => world.read(name),
        // reconfigure NODE MEMBER... [witness=NODE] [learner=NODE]
        "reconfigure" => world.reconfigure(name, members(args)?),
        // hand_over FROM TO
        "hand_over" => {
            let to = node(args)?;
            world.step(name, Event::HandOver { to, now }, &[]);
        }
        "retire" => world.step(name, Event::Retire, &[]),
        // yield NODE: it leaves mastership to others. claim NODE: ends that.
        "yield" => world.step(name, Event::Yield { prefers_other: true }, &[]),
        "claim" => world.step(name, Event::Yield { prefers_other: false }, &[]),
        // hang NODE: its disk is reported to hang. answer NODE: ends that.
        "hang" => world.step(name, Event::Disk { disk_hangs: true }, &[]),
        "answer" => world.step(name, Event::Disk { disk_hangs: false }, &[]),
        // crash NODE torn=N: N synced records are lost, and its tail is torn.
        // crash NODE [kept=N]: N unsynced records stay.
        "crash" if let Some(lost) = args.take_key("torn") => world.tear(name, lost.parse()?),
        "crash" => {
            let kept = args.take_key("kept").unwrap_or("0").parse()?;
            world.crash(name, kept);
        }
        "start" => world.start(name),
        "pause" | "wake" => target.paused = command == "pause",
        // stall NODE: its disk saves nothing until `flow NODE`.
        "stall" | "flow" => target.stalled = command == "stall",
        "collapse" => world.run_maintenance(name),
        other => return Err(format!("no story knows the command {other}").into()),
    }
    Ok(())
}

/// Lists the entries of each node; the decided ones precede the bar.
fn write_logs(world: &mut World) -> StoryResult {
    for (name, node) in &world.nodes {
        let replica = &node.machine.replica;
        let (decided, rest) = node.machine.values.split_at(replica.decided().0 as usize);
        let under = replica.accepted_ballot();
        let down = if node.up { "" } else { ", down" };
        let (decided, rest) = (list(decided), list(rest));
        writeln!(world.output, "node {name}: {decided}|{rest} (under {under}{down})")?;
    }
    Ok(())
}

/// Abbreviates long runs of consecutive numbers.
fn list(values: &[u64]) -> String {
    let mut text = String::new();
    let mut rest = values;
    while let Some(first) = rest.first() {
        let run = rest.iter().zip(*first..).take_while(|(value, next)| *value == next).count();
        match run {
            1 | 2 => write!(text, "{first} ").expect("a string takes all"),
            _ => write!(text, "{first}-{} ", rest[run - 1]).expect("a string takes all"),
        }
        rest = &rest[if run > 2 { run } else { 1 }..];
    }
    text
}

fn node(args: &mut ArgumentConsumer) -> StoryResult<NodeId> {
    Ok(NodeId(args.next_pos().ok_or("which node?")?.parse()?))
}

fn direction(args: &mut ArgumentConsumer) -> StoryResult<Direction> {
    Ok((node(args)?, node(args)?))
}

/// Parses both directions between two nodes, or between one and all others.
fn directions(args: &mut ArgumentConsumer, world: &World) -> StoryResult<Vec<Direction>> {
    let one = node(args)?;
    let others = match args.next_pos() {
        Some(other) => vec![NodeId(other.parse()?)],
        None => world.nodes.keys().copied().filter(|other| *other != one).collect(),
    };
    Ok(others.into_iter().flat_map(|other| [(one, other), (other, one)]).collect())
}

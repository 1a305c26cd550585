//! `COMMAND`: the list of commands, for clients and their help.

use super::keys::pattern;
use super::table::{self, Command};
use super::{CommandContext, MultiStep, RespPlan, TranslateResult};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use crate::resp::glob::Glob;
use crate::resp::output::Output;

/// Most names of one such command: a name of a few bytes asks for an answer of kilobytes.
const NAMES_MAX: usize = 256;

pub fn all(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let visible: Vec<_> = table::all().filter(|command| !command.is_hidden()).collect();
    ctx.out.array(visible.len());
    visible.into_iter().for_each(|command| write_command(command, ctx));
    Ok(RespPlan::Answered)
}

pub fn count(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.out.integer(table::all().filter(|command| !command.is_hidden()).count() as i64);
    Ok(RespPlan::Answered)
}

/// Finds a command by its name, or a subcommand by `parent|child`.
fn find_by_name(name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let command = table::find(parts.next().unwrap_or_default()).filter(|c| !c.is_hidden())?;
    match parts.next() {
        Some(child) => command.find_subcommand(child),
        None => Some(command),
    }
}

/// Refuses more names than one command may have.
fn check_name_count(args: &Args<'_>) -> Result<(), RespRefusal> {
    match args.len() - 2 <= NAMES_MAX {
        true => Ok(()),
        false => Err(RespRefusal::from_text(format!("ERR at most {NAMES_MAX} commands at a time"))),
    }
}

pub fn info(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.len() == 2 {
        return all(args, ctx);
    }
    check_name_count(args)?;
    ctx.out.array(args.len() - 2);
    for at in 2..args.len() {
        match find_by_name(args.get(at)) {
            Some(command) => write_command(command, ctx),
            None => ctx.out.null(),
        }
    }
    Ok(RespPlan::Answered)
}

fn write_command(command: &Command, ctx: &mut CommandContext<'_>) {
    let out = &mut *ctx.out;
    out.array(10);
    out.text(command.full_name);
    out.integer(i64::from(command.arity));
    let flags: Vec<_> = command.flags.names().collect();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.simple(flag));
    let (first, last, step) = command.keys;
    [first, last, step].iter().for_each(|&number| out.integer(number.into()));
    let categories = command.categories();
    out.set(categories.len());
    categories.iter().for_each(|category| out.simple(category));
    out.array(0);
    out.array(0);
    out.array(command.subcommands.len());
    command.subcommands.iter().for_each(|subcommand| write_command(subcommand, ctx));
}

/// Filter of the names that `COMMAND LIST` returns.
#[derive(Debug)]
pub enum CommandFilter {
    /// Commands of a category, as [`Command::categories`] has it.
    Category(String),
    /// Commands whose names match.
    Pattern(Glob),
}

impl CommandFilter {
    /// Returns the names that pass. It takes a tenth of a millisecond, so whoever calls it lets
    /// other tasks run in between: a pipeline has thousands of such commands in a few kilobytes.
    pub fn names(&self) -> Vec<&'static str> {
        let passes = |command: &&Command| match self {
            CommandFilter::Category(category) => command.categories().contains(category),
            CommandFilter::Pattern(glob) => glob.matches(command.full_name.as_bytes()),
        };
        visible().filter(passes).map(|command| command.full_name).collect()
    }
}

fn visible() -> impl Iterator<Item = &'static Command> {
    table::all().filter(|command| !command.is_hidden())
}

/// Writes names of commands.
pub fn write_names(names: &[&'static str], out: &mut Output) {
    out.array(names.len());
    names.iter().for_each(|name| out.text(*name));
}

pub fn list(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let filter = match (args.len(), args.upper(3).as_str()) {
        (2, _) => {
            let names: Vec<_> = visible().map(|command| command.full_name).collect();
            write_names(&names, ctx.out);
            return Ok(RespPlan::Answered);
        }
        (5, "MODULE") if args.is(2, "FILTERBY") => {
            write_names(&[], ctx.out);
            return Ok(RespPlan::Answered);
        }
        (5, "ACLCAT") if args.is(2, "FILTERBY") => {
            let category = args.upper(4).as_str().to_ascii_lowercase();
            CommandFilter::Category(format!("@{category}"))
        }
        (5, "PATTERN") if args.is(2, "FILTERBY") => {
            CommandFilter::Pattern(pattern(&args.get(4).to_ascii_lowercase())?)
        }
        _ => return Err(errors::SYNTAX),
    };
    Ok(RespPlan::MultiStep(MultiStep::CommandNames(filter)))
}

pub fn docs(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    check_name_count(args)?;
    let selected: Vec<_> = match args.len() {
        2 => table::all().filter(|command| !command.is_hidden()).collect(),
        _ => (2..args.len()).filter_map(|at| find_by_name(args.get(at))).collect(),
    };
    ctx.out.map(selected.len());
    selected.into_iter().for_each(|command| write_docs(command, ctx));
    Ok(RespPlan::Answered)
}

fn write_docs(command: &Command, ctx: &mut CommandContext<'_>) {
    let docs = command.docs();
    let out = &mut *ctx.out;
    out.text(command.full_name);
    let syntax = usize::from(!docs.syntax.is_empty());
    out.map(3 + syntax + usize::from(!command.subcommands.is_empty()));
    for (name, text) in [("summary", docs.summary), ("since", docs.since), ("group", docs.group)] {
        out.text(name);
        out.text(text);
    }
    if syntax == 1 {
        // One argument with the whole syntax as its text, because redis-cli shows that as its hint.
        out.text("arguments");
        out.array(1);
        out.map(3);
        for (name, text) in
            [("name", "arguments"), ("type", "string"), ("display_text", docs.syntax)]
        {
            out.text(name);
            out.text(text);
        }
    }
    if !command.subcommands.is_empty() {
        out.text("subcommands");
        out.map(command.subcommands.len());
        command.subcommands.iter().for_each(|subcommand| write_docs(subcommand, ctx));
    }
}

pub fn getkeys(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let inner = args.subrange(2, args.len());
    let command = super::find(&inner).map_err(|_| match table::find(inner.get(0)) {
        None => RespRefusal::new("ERR Invalid command specified"),
        Some(_) => RespRefusal::new("ERR Invalid number of arguments specified for command"),
    })?;
    let positions = command.key_positions(inner.len());
    if positions.is_empty() {
        return Err(RespRefusal::new("ERR The command has no key arguments"));
    }
    ctx.out.array(positions.len());
    positions.into_iter().for_each(|at| ctx.out.value(&inner.get_bytes(at)));
    Ok(RespPlan::Answered)
}

pub fn help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "COMMAND <subcommand> [<arg> ...]. Subcommands are:",
        "(no subcommand), INFO [<name> ...]: describes commands.",
        "COUNT: number of commands.",
        "DOCS [<name> ...]: documentation of commands.",
        "GETKEYS <command>: keys among the arguments of a command.",
        "LIST [FILTERBY MODULE|ACLCAT|PATTERN <filter>]: names of commands.",
    ])
}

impl Command {
    /// Returns the positions of the keys among this many arguments.
    pub fn key_positions(&self, args: usize) -> Vec<usize> {
        let (first, last, step) = self.keys;
        let Ok(step @ 1..) = usize::try_from(step) else { return Vec::new() };
        let last = if last < 0 { args as i64 + i64::from(last) } else { i64::from(last) };
        let last = usize::try_from(last).unwrap_or(0).min(args.saturating_sub(1));
        (first.unsigned_abs() as usize..=last).step_by(step).collect()
    }
}

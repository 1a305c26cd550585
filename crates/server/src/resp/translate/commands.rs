//! `COMMAND`: the list of commands, for clients and their help.

use super::keys::pattern;
use super::table::{self, Command};
use super::{CommandContext, RespPlan, Translated};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;

pub fn all(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let shown: Vec<_> = table::all().filter(|command| !command.is_hidden()).collect();
    talk.out.array(shown.len());
    shown.into_iter().for_each(|command| describe(command, talk));
    Ok(RespPlan::Said)
}

pub fn count(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.out.integer(table::all().filter(|command| !command.is_hidden()).count() as i64);
    Ok(RespPlan::Said)
}

/// Finds a command by its name, or a subcommand by `parent|child`.
fn named(name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let command = table::find(parts.next().unwrap_or_default()).filter(|c| !c.is_hidden())?;
    match parts.next() {
        Some(child) => command.under(child),
        None => Some(command),
    }
}

pub fn info(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.len() == 2 {
        return all(words, talk);
    }
    talk.out.array(words.len() - 2);
    for at in 2..words.len() {
        match named(words.get(at)) {
            Some(command) => describe(command, talk),
            None => talk.out.null(),
        }
    }
    Ok(RespPlan::Said)
}

fn describe(command: &Command, talk: &mut CommandContext<'_>) {
    let out = &mut *talk.out;
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
    out.array(command.under.len());
    command.under.iter().for_each(|under| describe(under, talk));
}

pub fn list(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let mut names: Vec<_> =
        table::all().filter(|command| !command.is_hidden()).map(|c| c.full_name).collect();
    match (words.len(), words.upper(3).as_str()) {
        (2, _) => {}
        (5, "MODULE") if words.is(2, "FILTERBY") => names.clear(),
        (5, "ACLCAT") if words.is(2, "FILTERBY") => {
            let category = format!("@{}", words.upper(4).as_str().to_ascii_lowercase());
            names.retain(|name| {
                let found = table::find(name.as_bytes());
                found.is_some_and(|command| command.categories().contains(&category))
            });
        }
        (5, "PATTERN") if words.is(2, "FILTERBY") => {
            let glob = pattern(&words.get(4).to_ascii_lowercase())?;
            names.retain(|name| glob.fits(name.as_bytes()));
        }
        _ => return Err(errors::SYNTAX),
    }
    talk.out.array(names.len());
    names.iter().for_each(|name| talk.out.text(name));
    Ok(RespPlan::Said)
}

pub fn docs(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let wanted: Vec<_> = match words.len() {
        2 => table::all().filter(|command| !command.is_hidden()).collect(),
        _ => (2..words.len()).filter_map(|at| named(words.get(at))).collect(),
    };
    talk.out.map(wanted.len());
    wanted.into_iter().for_each(|command| document(command, talk));
    Ok(RespPlan::Said)
}

fn document(command: &Command, talk: &mut CommandContext<'_>) {
    let docs = command.docs();
    let out = &mut *talk.out;
    out.text(command.full_name);
    let syntax = usize::from(!docs.syntax.is_empty());
    out.map(3 + syntax + usize::from(!command.under.is_empty()));
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
    if !command.under.is_empty() {
        out.text("subcommands");
        out.map(command.under.len());
        command.under.iter().for_each(|under| document(under, talk));
    }
}

pub fn getkeys(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let inner = words.part(2, words.len());
    let command = super::find(&inner).map_err(|_| match table::find(inner.get(0)) {
        None => RespRefusal::new("ERR Invalid command specified"),
        Some(_) => RespRefusal::new("ERR Invalid number of arguments specified for command"),
    })?;
    let places = command.key_places(inner.len());
    if places.is_empty() {
        return Err(RespRefusal::new("ERR The command has no key arguments"));
    }
    talk.out.array(places.len());
    places.into_iter().for_each(|at| talk.out.value(&inner.keep(at)));
    Ok(RespPlan::Said)
}

pub fn help(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.help(&[
        "COMMAND <subcommand> [<arg> ...]. Subcommands are:",
        "(no subcommand), INFO [<name> ...]: details of commands.",
        "COUNT: how many there are.",
        "DOCS [<name> ...]: what they do.",
        "GETKEYS <command>: which of its words are keys.",
        "LIST [FILTERBY MODULE|ACLCAT|PATTERN <filter>]: their names.",
    ])
}

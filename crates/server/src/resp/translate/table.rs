//! Table of commands: name, arity, flags, positions of keys, and the function that reads the words.
//!
//! `commands.txt` describes each command in one line; a test checks that both name the same
//! commands.

use super::{
    CommandContext, Translated, buckets, clients, commands, configuration, connection, expiry,
    keys, numbers, own, range, sequence, server, siblings, strings, transaction,
};
use crate::resp::frame::Words;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Function that translates a command's words.
pub type CommandFunction = fn(&Words<'_>, &mut CommandContext<'_>) -> Translated;

/// Command, or subcommand.
#[derive(Debug)]
pub struct Command {
    /// Name in lower case; of a subcommand, `parent|child`.
    pub full_name: &'static str,
    /// Number of words it takes, including its name; negative: the minimum.
    pub arity: i32,
    /// Properties of the command.
    pub flags: Flags,
    /// Positions of its first key and its last key (negative: from the end), and the step between
    /// keys; all 0 if it has none.
    pub keys: (i8, i8, i8),
    /// Function that translates its words.
    pub run: CommandFunction,
    /// Its subcommands.
    pub under: &'static [Command],
}

/// Properties of a command, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

const READ: u16 = 1;
const WRITE: u16 = 1 << 1;
const GROWS: u16 = 1 << 2;
const FAST: u16 = 1 << 3;
const ADMIN: u16 = 1 << 4;
const NO_MULTI: u16 = 1 << 5;
const AT_ONCE: u16 = 1 << 6;
const HIDDEN: u16 = 1 << 7;
const ALWAYS: u16 = 1 << 8;

impl Flags {
    /// Not allowed in a transaction.
    pub const NO_MULTI: u16 = NO_MULTI;
    /// Runs at once, even in a transaction.
    pub const AT_ONCE: u16 = AT_ONCE;

    /// Returns true if this flag is set.
    #[inline]
    pub fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    /// Returns the flags under Redis' names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [(u16, &str); 8] = [
            (WRITE, "write"),
            (READ, "readonly"),
            (GROWS, "denyoom"),
            (ADMIN, "admin"),
            (ALWAYS, "loading"),
            (ALWAYS, "stale"),
            (FAST, "fast"),
            (NO_MULTI, "no_multi"),
        ];
        NAMES.into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
    }
}

/// Documentation of a command.
#[derive(Clone, Copy, Debug)]
pub struct Docs {
    /// Group of commands: `string`, `generic`, ...
    pub group: &'static str,
    /// First version of Redis that had it; for Credenza's own commands, of Credenza.
    pub since: &'static str,
    /// Syntax of its arguments.
    pub syntax: &'static str,
    /// Description in one sentence.
    pub summary: &'static str,
}

type KeyPositions = (i8, i8, i8);
const NO_KEY: KeyPositions = (0, 0, 0);
const ONE_KEY: KeyPositions = (1, 1, 1);
const TWO_KEYS: KeyPositions = (1, 2, 1);
const ALL_KEYS: KeyPositions = (1, -1, 1);
const EVERY_OTHER: KeyPositions = (1, -1, 2);
const SECOND: KeyPositions = (2, 2, 1);

const fn leaf(
    name: &'static str,
    arity: i32,
    flags: u16,
    keys: KeyPositions,
    run: CommandFunction,
) -> Command {
    Command { full_name: name, arity, flags: Flags(flags), keys, run, under: &[] }
}

const fn tree(
    name: &'static str,
    arity: i32,
    run: CommandFunction,
    under: &'static [Command],
) -> Command {
    Command { full_name: name, arity, flags: Flags(ALWAYS), keys: NO_KEY, run, under }
}

const STRINGS: &[Command] = &[
    leaf("get", 2, READ | FAST, ONE_KEY, strings::get),
    leaf("set", -3, WRITE | GROWS, ONE_KEY, strings::set),
    leaf("setnx", 3, WRITE | GROWS | FAST, ONE_KEY, strings::setnx),
    leaf("setex", 4, WRITE | GROWS, ONE_KEY, strings::setex),
    leaf("psetex", 4, WRITE | GROWS, ONE_KEY, strings::psetex),
    leaf("getset", 3, WRITE | GROWS | FAST, ONE_KEY, strings::getset),
    leaf("getdel", 2, WRITE | FAST, ONE_KEY, strings::getdel),
    leaf("getex", -2, WRITE | FAST, ONE_KEY, strings::getex),
    leaf("mget", -2, READ | FAST, ALL_KEYS, strings::mget),
    leaf("mset", -3, WRITE | GROWS, EVERY_OTHER, strings::mset),
    leaf("msetnx", -3, WRITE | GROWS, EVERY_OTHER, strings::msetnx),
    leaf("append", 3, WRITE | GROWS | FAST, ONE_KEY, strings::append),
    leaf("strlen", 2, READ | FAST, ONE_KEY, strings::strlen),
    leaf("getrange", 4, READ, ONE_KEY, strings::getrange),
    leaf("substr", 4, READ, ONE_KEY, strings::getrange),
    leaf("setrange", 4, WRITE | GROWS, ONE_KEY, strings::setrange),
    leaf("incr", 2, WRITE | GROWS | FAST, ONE_KEY, numbers::incr),
    leaf("decr", 2, WRITE | GROWS | FAST, ONE_KEY, numbers::decr),
    leaf("incrby", 3, WRITE | GROWS | FAST, ONE_KEY, numbers::incrby),
    leaf("decrby", 3, WRITE | GROWS | FAST, ONE_KEY, numbers::decrby),
    leaf("incrbyfloat", 3, WRITE | GROWS | FAST, ONE_KEY, numbers::incrbyfloat),
];

const KEYS: &[Command] = &[
    leaf("del", -2, WRITE, ALL_KEYS, keys::del),
    leaf("unlink", -2, WRITE | FAST, ALL_KEYS, keys::del),
    leaf("exists", -2, READ | FAST, ALL_KEYS, keys::exists),
    leaf("touch", -2, READ | FAST, ALL_KEYS, keys::exists),
    leaf("type", 2, READ | FAST, ONE_KEY, keys::kind),
    leaf("keys", 2, READ, NO_KEY, keys::keys),
    leaf("scan", -2, READ | NO_MULTI, NO_KEY, keys::scan),
    leaf("randomkey", 1, READ | NO_MULTI, NO_KEY, keys::randomkey),
    leaf("rename", 3, WRITE, TWO_KEYS, keys::rename),
    leaf("renamenx", 3, WRITE | FAST, TWO_KEYS, keys::renamenx),
    leaf("copy", -3, WRITE | GROWS, TWO_KEYS, keys::copy),
    leaf("expire", -3, WRITE | FAST, ONE_KEY, expiry::expire),
    leaf("pexpire", -3, WRITE | FAST, ONE_KEY, expiry::pexpire),
    leaf("expireat", -3, WRITE | FAST, ONE_KEY, expiry::expireat),
    leaf("pexpireat", -3, WRITE | FAST, ONE_KEY, expiry::pexpireat),
    leaf("ttl", 2, READ | FAST, ONE_KEY, expiry::ttl),
    leaf("pttl", 2, READ | FAST, ONE_KEY, expiry::pttl),
    leaf("expiretime", 2, READ | FAST, ONE_KEY, expiry::expiretime),
    leaf("pexpiretime", 2, READ | FAST, ONE_KEY, expiry::pexpiretime),
    leaf("persist", 2, WRITE | FAST, ONE_KEY, expiry::persist),
    tree("object", -2, keys::object_help, OBJECT),
    tree("memory", -2, keys::memory_help, MEMORY),
];

const OBJECT: &[Command] = &[
    leaf("object|encoding", 3, READ, SECOND, keys::object_encoding),
    leaf("object|refcount", 3, READ, SECOND, keys::object_refcount),
    leaf("object|help", 2, ALWAYS, NO_KEY, keys::object_help),
];

const MEMORY: &[Command] = &[
    leaf("memory|usage", -3, READ, SECOND, keys::memory_usage),
    leaf("memory|help", 2, ALWAYS, NO_KEY, keys::memory_help),
];

const CONNECTION: &[Command] = &[
    leaf("ping", -1, ALWAYS | FAST, NO_KEY, connection::ping),
    leaf("echo", 2, ALWAYS | FAST, NO_KEY, connection::echo),
    leaf("quit", -1, ALWAYS | FAST | AT_ONCE, NO_KEY, connection::quit),
    leaf("select", 2, ALWAYS | FAST | NO_MULTI, NO_KEY, connection::select),
    leaf("auth", -2, ALWAYS | FAST, NO_KEY, connection::auth),
    leaf("hello", -1, ALWAYS | FAST | NO_MULTI, NO_KEY, connection::hello),
    leaf("reset", 1, ALWAYS | FAST | AT_ONCE, NO_KEY, connection::reset),
    tree("client", -2, clients::help, CLIENT),
    leaf("post", -1, HIDDEN | AT_ONCE, NO_KEY, connection::http),
    leaf("host:", -1, HIDDEN | AT_ONCE, NO_KEY, connection::http),
    leaf("multi", 1, ALWAYS | FAST | AT_ONCE, NO_KEY, transaction::multi),
    leaf("exec", 1, ALWAYS | AT_ONCE, NO_KEY, transaction::exec),
    leaf("discard", 1, ALWAYS | FAST | AT_ONCE, NO_KEY, transaction::discard),
    leaf("watch", -2, ALWAYS | FAST | AT_ONCE, ALL_KEYS, transaction::watch),
    leaf("unwatch", 1, ALWAYS | FAST, NO_KEY, transaction::unwatch),
];

const CLIENT: &[Command] = &[
    leaf("client|id", 2, ALWAYS, NO_KEY, clients::id),
    leaf("client|info", 2, ALWAYS | NO_MULTI, NO_KEY, clients::info),
    leaf("client|list", -2, ALWAYS | ADMIN | NO_MULTI, NO_KEY, clients::list),
    leaf("client|kill", -3, ALWAYS | ADMIN | NO_MULTI, NO_KEY, clients::kill),
    leaf("client|getname", 2, ALWAYS, NO_KEY, clients::getname),
    leaf("client|setname", 3, ALWAYS, NO_KEY, clients::setname),
    leaf("client|setinfo", 4, ALWAYS, NO_KEY, clients::setinfo),
    leaf("client|getredir", 2, ALWAYS, NO_KEY, clients::getredir),
    leaf("client|reply", 3, ALWAYS | NO_MULTI, NO_KEY, clients::reply),
    leaf("client|no-evict", 3, ALWAYS | ADMIN, NO_KEY, clients::switch),
    leaf("client|no-touch", 3, ALWAYS, NO_KEY, clients::switch),
    leaf("client|tracking", -3, ALWAYS, NO_KEY, clients::tracking),
    leaf("client|trackinginfo", 2, ALWAYS, NO_KEY, clients::trackinginfo),
    leaf("client|unpause", 2, ALWAYS | ADMIN, NO_KEY, clients::unpause),
    leaf("client|help", 2, ALWAYS, NO_KEY, clients::help),
];

const SERVER: &[Command] = &[
    leaf("dbsize", 1, READ | FAST | NO_MULTI, NO_KEY, server::dbsize),
    leaf("flushdb", -1, WRITE, NO_KEY, server::flush),
    leaf("flushall", -1, WRITE, NO_KEY, server::flush),
    leaf("info", -1, ALWAYS | NO_MULTI, NO_KEY, server::info),
    leaf("time", 1, ALWAYS | FAST, NO_KEY, server::time),
    leaf("save", 1, ADMIN | NO_MULTI, NO_KEY, server::save),
    leaf("bgsave", -1, ADMIN | NO_MULTI, NO_KEY, server::bgsave),
    leaf("lastsave", 1, ALWAYS | FAST, NO_KEY, server::lastsave),
    leaf("role", 1, ALWAYS | FAST | NO_MULTI, NO_KEY, server::role),
    leaf("wait", 3, ALWAYS, NO_KEY, server::wait),
    tree("command", -1, commands::all, COMMAND),
    tree("config", -2, configuration::help, CONFIG),
];

const COMMAND: &[Command] = &[
    leaf("command|count", 2, ALWAYS, NO_KEY, commands::count),
    leaf("command|docs", -2, ALWAYS, NO_KEY, commands::docs),
    leaf("command|getkeys", -4, ALWAYS, NO_KEY, commands::getkeys),
    leaf("command|info", -2, ALWAYS, NO_KEY, commands::info),
    leaf("command|list", -2, ALWAYS, NO_KEY, commands::list),
    leaf("command|help", 2, ALWAYS, NO_KEY, commands::help),
];

const CONFIG: &[Command] = &[
    leaf("config|get", -3, ALWAYS | ADMIN, NO_KEY, configuration::get),
    leaf("config|set", -4, ALWAYS | ADMIN, NO_KEY, configuration::set),
    leaf("config|resetstat", 2, ALWAYS | ADMIN | NO_MULTI, NO_KEY, configuration::resetstat),
    leaf("config|rewrite", 2, ALWAYS | ADMIN, NO_KEY, configuration::rewrite),
    leaf("config|help", 2, ALWAYS, NO_KEY, configuration::help),
];

const OWN: &[Command] = &[
    leaf("credenza.bucket", -1, ALWAYS | NO_MULTI, NO_KEY, buckets::bucket),
    leaf("credenza.buckets", -1, ALWAYS | NO_MULTI, NO_KEY, buckets::list),
    leaf("credenza.create", -2, ADMIN | NO_MULTI, NO_KEY, buckets::create),
    leaf("credenza.alter", -4, ADMIN | NO_MULTI, NO_KEY, buckets::alter),
    leaf("credenza.describe", -1, ALWAYS | NO_MULTI, NO_KEY, buckets::describe),
    leaf("credenza.drop", 2, ADMIN | NO_MULTI, NO_KEY, buckets::drop),
    leaf("credenza.sequence", -3, WRITE | GROWS, NO_KEY, sequence::sequence),
    leaf("credenza.tas", -4, WRITE | GROWS, ONE_KEY, own::tas),
    leaf("credenza.confirm", 3, WRITE | GROWS, ONE_KEY, own::confirm),
    leaf("credenza.assert", -3, READ | FAST, ONE_KEY, own::assert),
    leaf("credenza.range", -3, READ, NO_KEY, range::range),
    leaf("credenza.prefix", -2, READ, NO_KEY, range::prefix),
    leaf("credenza.delprefix", 2, WRITE, NO_KEY, range::delprefix),
    leaf("credenza.fetch", -2, READ | FAST | NO_MULTI, ONE_KEY, siblings::fetch),
    leaf("credenza.store", -3, WRITE | GROWS | NO_MULTI, ONE_KEY, siblings::store),
    leaf("credenza.remove", -2, WRITE | NO_MULTI, ONE_KEY, siblings::remove),
    leaf("credenza.consistency", -1, ALWAYS | NO_MULTI, NO_KEY, own::consistency),
    leaf("credenza.index", 1, ALWAYS | NO_MULTI, NO_KEY, own::index),
    leaf("credenza.retry", -3, ALWAYS | NO_MULTI, NO_KEY, own::retry),
    tree("credenza.session", -2, own::session_help, SESSION),
];

const SESSION: &[Command] = &[
    leaf("credenza.session|open", 2, ALWAYS | NO_MULTI, NO_KEY, own::session_open),
    leaf("credenza.session|use", 3, ALWAYS | NO_MULTI, NO_KEY, own::session_use),
    leaf("credenza.session|close", -2, ALWAYS | NO_MULTI, NO_KEY, own::session_close),
    leaf("credenza.session|help", 2, ALWAYS, NO_KEY, own::session_help),
];

/// Returns every command, without subcommands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    [STRINGS, KEYS, CONNECTION, SERVER, OWN].into_iter().flatten()
}

const SLOTS: usize = 512;

/// Hash index over the names, with open addressing. It is a quarter full, so most look-ups need one
/// probe.
static INDEX: LazyLock<[Option<&'static Command>; SLOTS]> = LazyLock::new(|| {
    let mut slots = [None; SLOTS];
    for command in all() {
        let mut at = slot(command.full_name.as_bytes());
        while slots[at].is_some() {
            at = (at + 1) % SLOTS;
        }
        slots[at] = Some(command);
    }
    slots
});

#[inline]
fn slot(name: &[u8]) -> usize {
    let mix = |hash: u32, &byte: &u8| (hash ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193);
    let hash = name.iter().take(24).fold(0x811C_9DC5, mix);
    (hash ^ hash >> 15) as usize % SLOTS
}

/// Finds the command of this name, ignoring case.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut at = slot(name);
    while let Some(command) = INDEX[at] {
        if command.full_name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        at = (at + 1) % SLOTS;
    }
    None
}

static DOCS: LazyLock<BTreeMap<&'static str, Docs>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let mut parts = line.splitn(5, ';').map(str::trim);
        let mut next = || parts.next().unwrap_or_default();
        let name = next();
        (name, Docs { group: next(), since: next(), syntax: next(), summary: next() })
    };
    let lines = include_str!("commands.txt").lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).map(line).collect()
});

/// Returns the names in `commands.txt`.
#[cfg(test)]
pub fn documented() -> impl Iterator<Item = &'static str> {
    DOCS.keys().copied()
}

impl Command {
    /// Returns true if the command takes this many words, including its name.
    #[inline]
    pub fn takes(&self, words: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= wanted } else { words == wanted }
    }

    /// Finds the subcommand of this name, ignoring case.
    pub fn under(&self, child: &[u8]) -> Option<&'static Command> {
        let name = |command: &Command| command.full_name.rsplit('|').next().unwrap_or_default();
        self.under.iter().find(|command| name(command).as_bytes().eq_ignore_ascii_case(child))
    }

    /// Returns true if the command reads or changes rows with one request.
    #[inline]
    pub fn is_data(&self) -> bool {
        self.flags.has(READ | WRITE) && !self.flags.has(NO_MULTI)
    }

    /// Returns true if the command reads or changes rows, and nothing of its connection.
    #[inline]
    pub fn is_of_rows(&self) -> bool {
        self.flags.has(READ | WRITE)
    }

    /// Returns true if the command is not shown: it only guards against requests of another
    /// protocol.
    pub fn is_hidden(&self) -> bool {
        self.flags.has(HIDDEN)
    }

    /// Returns the documentation.
    pub fn docs(&self) -> Docs {
        let none = Docs { group: "generic", since: "", syntax: "", summary: "" };
        DOCS.get(self.full_name).copied().unwrap_or(none)
    }

    /// Returns Redis' categories of the command.
    pub fn categories(&self) -> Vec<String> {
        let kinds = [(READ, "@read"), (WRITE, "@write"), (ADMIN, "@admin"), (FAST, "@fast")];
        let kinds = kinds.into_iter().filter(|(flag, _)| self.flags.has(*flag));
        let mut all: Vec<String> = kinds.map(|(_, name)| name.into()).collect();
        if !self.flags.has(FAST) {
            all.push("@slow".into());
        }
        all.push(format!("@{}", self.docs().group));
        all
    }

    /// Returns the positions of the keys among this many words.
    pub fn key_places(&self, words: usize) -> Vec<usize> {
        let (first, last, step) = self.keys;
        let Ok(step @ 1..) = usize::try_from(step) else { return Vec::new() };
        let last = if last < 0 { words as i64 + i64::from(last) } else { i64::from(last) };
        let last = usize::try_from(last).unwrap_or(0).min(words.saturating_sub(1));
        (first.unsigned_abs() as usize..=last).step_by(step).collect()
    }
}

//! Table of commands: name, arity, flags, positions of keys, and the function that parses them.
//!
//! `commands.txt` describes each command in one line; a test checks that both name the same
//! commands.

use super::command_docs::{self, Docs};
use super::{
    CommandContext, TranslateResult, buckets, clients, commands, configuration, connection,
    declared_indexes, expiry, extensions, feed, keys, numbers, range, sequence, server, siblings,
    slow_log, strings, transaction,
};
use crate::resp::frame::Args;
use std::sync::LazyLock;

/// Function that translates a command's arguments.
pub type CommandFunction = fn(&Args<'_>, &mut CommandContext<'_>) -> TranslateResult;

/// Command, or subcommand.
#[derive(Debug)]
pub struct Command {
    /// Name in lower case; of a subcommand, `parent|child`.
    pub full_name: &'static str,
    /// Number of arguments it takes, including its name; negative: the minimum.
    pub arity: i32,
    /// Properties of the command.
    pub flags: Flags,
    /// Positions of its first key and its last key (negative: from the end), and the step between
    /// keys; all 0 if it has none.
    pub keys: (i8, i8, i8),
    /// Function that translates its arguments.
    pub run: CommandFunction,
    /// Its subcommands.
    pub subcommands: &'static [Command],
}

/// Properties of a command, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

const READ: u16 = 1;
const WRITE: u16 = 1 << 1;
const DENY_OOM: u16 = 1 << 2;
const FAST: u16 = 1 << 3;
const ADMIN: u16 = 1 << 4;
const NO_MULTI: u16 = 1 << 5;
const IMMEDIATE: u16 = 1 << 6;
const HIDDEN: u16 = 1 << 7;
const ALWAYS: u16 = 1 << 8;
const NO_AUTH: u16 = 1 << 9;

impl Flags {
    /// Not allowed in a transaction.
    pub const NO_MULTI: u16 = NO_MULTI;
    /// Runs at once, even in a transaction.
    pub const IMMEDIATE: u16 = IMMEDIATE;
    /// Allowed before the client has logged in.
    pub const NO_AUTH: u16 = NO_AUTH;

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
            (DENY_OOM, "denyoom"),
            (ADMIN, "admin"),
            (ALWAYS, "loading"),
            (ALWAYS, "stale"),
            (FAST, "fast"),
            (NO_MULTI, "no_multi"),
        ];
        NAMES.into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
    }
}

type KeyPositions = (i8, i8, i8);
const NO_KEY: KeyPositions = (0, 0, 0);
const ONE_KEY: KeyPositions = (1, 1, 1);
const TWO_KEYS: KeyPositions = (1, 2, 1);
const ALL_KEYS: KeyPositions = (1, -1, 1);
const EVERY_OTHER: KeyPositions = (1, -1, 2);
const SECOND: KeyPositions = (2, 2, 1);

const fn command(
    name: &'static str,
    arity: i32,
    flags: u16,
    keys: KeyPositions,
    run: CommandFunction,
) -> Command {
    Command { full_name: name, arity, flags: Flags(flags), keys, run, subcommands: &[] }
}

const fn container(
    name: &'static str,
    arity: i32,
    run: CommandFunction,
    subcommands: &'static [Command],
) -> Command {
    Command { full_name: name, arity, flags: Flags(ALWAYS), keys: NO_KEY, run, subcommands }
}

const STRINGS: &[Command] = &[
    command("get", 2, READ | FAST, ONE_KEY, strings::get),
    command("set", -3, WRITE | DENY_OOM, ONE_KEY, strings::set),
    command("setnx", 3, WRITE | DENY_OOM | FAST, ONE_KEY, strings::setnx),
    command("setex", 4, WRITE | DENY_OOM, ONE_KEY, strings::setex),
    command("psetex", 4, WRITE | DENY_OOM, ONE_KEY, strings::psetex),
    command("getset", 3, WRITE | DENY_OOM | FAST, ONE_KEY, strings::getset),
    command("getdel", 2, WRITE | FAST, ONE_KEY, strings::getdel),
    command("getex", -2, WRITE | FAST, ONE_KEY, strings::getex),
    command("mget", -2, READ | FAST, ALL_KEYS, strings::mget),
    command("mset", -3, WRITE | DENY_OOM, EVERY_OTHER, strings::mset),
    command("msetnx", -3, WRITE | DENY_OOM, EVERY_OTHER, strings::msetnx),
    command("append", 3, WRITE | DENY_OOM | FAST, ONE_KEY, strings::append),
    command("strlen", 2, READ | FAST, ONE_KEY, strings::strlen),
    command("getrange", 4, READ, ONE_KEY, strings::getrange),
    command("substr", 4, READ, ONE_KEY, strings::getrange),
    command("setrange", 4, WRITE | DENY_OOM, ONE_KEY, strings::setrange),
    command("incr", 2, WRITE | DENY_OOM | FAST, ONE_KEY, numbers::incr),
    command("decr", 2, WRITE | DENY_OOM | FAST, ONE_KEY, numbers::decr),
    command("incrby", 3, WRITE | DENY_OOM | FAST, ONE_KEY, numbers::incrby),
    command("decrby", 3, WRITE | DENY_OOM | FAST, ONE_KEY, numbers::decrby),
    command("incrbyfloat", 3, WRITE | DENY_OOM | FAST, ONE_KEY, numbers::incrbyfloat),
];

const KEYS: &[Command] = &[
    command("del", -2, WRITE, ALL_KEYS, keys::del),
    command("unlink", -2, WRITE | FAST, ALL_KEYS, keys::del),
    command("exists", -2, READ | FAST, ALL_KEYS, keys::exists),
    command("touch", -2, READ | FAST, ALL_KEYS, keys::exists),
    command("type", 2, READ | FAST, ONE_KEY, keys::type_name),
    command("keys", 2, READ, NO_KEY, keys::keys),
    command("scan", -2, READ | NO_MULTI, NO_KEY, keys::scan),
    command("randomkey", 1, READ | NO_MULTI, NO_KEY, keys::randomkey),
    command("rename", 3, WRITE, TWO_KEYS, keys::rename),
    command("renamenx", 3, WRITE | FAST, TWO_KEYS, keys::renamenx),
    command("copy", -3, WRITE | DENY_OOM, TWO_KEYS, keys::copy),
    command("expire", -3, WRITE | FAST, ONE_KEY, expiry::expire),
    command("pexpire", -3, WRITE | FAST, ONE_KEY, expiry::pexpire),
    command("expireat", -3, WRITE | FAST, ONE_KEY, expiry::expireat),
    command("pexpireat", -3, WRITE | FAST, ONE_KEY, expiry::pexpireat),
    command("ttl", 2, READ | FAST, ONE_KEY, expiry::ttl),
    command("pttl", 2, READ | FAST, ONE_KEY, expiry::pttl),
    command("expiretime", 2, READ | FAST, ONE_KEY, expiry::expiretime),
    command("pexpiretime", 2, READ | FAST, ONE_KEY, expiry::pexpiretime),
    command("persist", 2, WRITE | FAST, ONE_KEY, expiry::persist),
    container("object", -2, keys::object_help, OBJECT),
    container("memory", -2, keys::memory_help, MEMORY),
];

const OBJECT: &[Command] = &[
    command("object|encoding", 3, READ, SECOND, keys::object_encoding),
    command("object|refcount", 3, READ, SECOND, keys::object_refcount),
    command("object|help", 2, ALWAYS, NO_KEY, keys::object_help),
];

const MEMORY: &[Command] = &[
    command("memory|usage", -3, READ, SECOND, keys::memory_usage),
    command("memory|help", 2, ALWAYS, NO_KEY, keys::memory_help),
];

const CONNECTION: &[Command] = &[
    command("ping", -1, ALWAYS | FAST, NO_KEY, connection::ping),
    command("echo", 2, ALWAYS | FAST, NO_KEY, connection::echo),
    command("quit", -1, NO_AUTH | ALWAYS | FAST | IMMEDIATE, NO_KEY, connection::quit),
    command("select", 2, ALWAYS | FAST | NO_MULTI, NO_KEY, connection::select),
    command("auth", -2, NO_AUTH | ALWAYS | FAST | NO_MULTI, NO_KEY, connection::auth),
    command("hello", -1, NO_AUTH | ALWAYS | FAST | NO_MULTI, NO_KEY, connection::hello),
    command("reset", 1, NO_AUTH | ALWAYS | FAST | IMMEDIATE, NO_KEY, connection::reset),
    container("client", -2, clients::help, CLIENT),
    container("acl", -2, connection::acl_help, ACL),
    command("post", -1, NO_AUTH | HIDDEN | IMMEDIATE, NO_KEY, connection::http),
    command("host:", -1, NO_AUTH | HIDDEN | IMMEDIATE, NO_KEY, connection::http),
    command("multi", 1, ALWAYS | FAST | IMMEDIATE, NO_KEY, transaction::multi),
    command("exec", 1, ALWAYS | IMMEDIATE, NO_KEY, transaction::exec),
    command("discard", 1, ALWAYS | FAST | IMMEDIATE, NO_KEY, transaction::discard),
    command("watch", -2, ALWAYS | FAST | IMMEDIATE, ALL_KEYS, transaction::watch),
    command("unwatch", 1, ALWAYS | FAST, NO_KEY, transaction::unwatch),
];

const ACL: &[Command] = &[
    command("acl|whoami", 2, ALWAYS, NO_KEY, connection::acl_whoami),
    command("acl|help", 2, ALWAYS, NO_KEY, connection::acl_help),
];

const CLIENT: &[Command] = &[
    command("client|id", 2, ALWAYS, NO_KEY, clients::id),
    command("client|info", 2, ALWAYS | NO_MULTI, NO_KEY, clients::info),
    command("client|list", -2, ALWAYS | ADMIN | NO_MULTI, NO_KEY, clients::list),
    command("client|kill", -3, ALWAYS | ADMIN | NO_MULTI, NO_KEY, clients::kill),
    command("client|getname", 2, ALWAYS, NO_KEY, clients::getname),
    command("client|setname", 3, ALWAYS, NO_KEY, clients::setname),
    command("client|setinfo", 4, ALWAYS, NO_KEY, clients::setinfo),
    command("client|getredir", 2, ALWAYS, NO_KEY, clients::getredir),
    command("client|reply", 3, ALWAYS | NO_MULTI, NO_KEY, clients::reply),
    command("client|no-evict", 3, ALWAYS | ADMIN, NO_KEY, clients::switch),
    command("client|no-touch", 3, ALWAYS, NO_KEY, clients::switch),
    command("client|tracking", -3, ALWAYS, NO_KEY, clients::tracking),
    command("client|trackinginfo", 2, ALWAYS, NO_KEY, clients::trackinginfo),
    command("client|unpause", 2, ALWAYS | ADMIN, NO_KEY, clients::unpause),
    command("client|help", 2, ALWAYS, NO_KEY, clients::help),
];

const SERVER: &[Command] = &[
    command("dbsize", 1, READ | FAST | NO_MULTI, NO_KEY, server::dbsize),
    command("flushdb", -1, WRITE, NO_KEY, server::flush),
    command("flushall", -1, WRITE, NO_KEY, server::flush),
    command("info", -1, ALWAYS | NO_MULTI, NO_KEY, server::info),
    command("time", 1, ALWAYS | FAST, NO_KEY, server::time),
    command("save", 1, ADMIN | NO_MULTI, NO_KEY, server::save),
    command("bgsave", -1, ADMIN | NO_MULTI, NO_KEY, server::bgsave),
    command("lastsave", 1, ALWAYS | FAST, NO_KEY, server::lastsave),
    command("role", 1, ALWAYS | FAST | NO_MULTI, NO_KEY, server::role),
    command("wait", 3, ALWAYS, NO_KEY, server::wait),
    container("command", -1, commands::all, COMMAND),
    container("config", -2, configuration::help, CONFIG),
    container("slowlog", -2, slow_log::help, SLOWLOG),
];

const COMMAND: &[Command] = &[
    command("command|count", 2, ALWAYS, NO_KEY, commands::count),
    command("command|docs", -2, ALWAYS, NO_KEY, commands::docs),
    command("command|getkeys", -4, ALWAYS, NO_KEY, commands::getkeys),
    command("command|info", -2, ALWAYS, NO_KEY, commands::info),
    command("command|list", -2, ALWAYS, NO_KEY, commands::list),
    command("command|help", 2, ALWAYS, NO_KEY, commands::help),
];

const CONFIG: &[Command] = &[
    command("config|get", -3, ALWAYS | ADMIN | NO_MULTI, NO_KEY, configuration::get),
    command("config|set", -4, ALWAYS | ADMIN, NO_KEY, configuration::set),
    command("config|resetstat", 2, ALWAYS | ADMIN | NO_MULTI, NO_KEY, configuration::resetstat),
    command("config|rewrite", 2, ALWAYS | ADMIN, NO_KEY, configuration::rewrite),
    command("config|help", 2, ALWAYS, NO_KEY, configuration::help),
];

const SLOWLOG: &[Command] = &[
    command("slowlog|get", -2, ALWAYS | ADMIN | NO_MULTI, NO_KEY, slow_log::get),
    command("slowlog|len", 2, ALWAYS | ADMIN | NO_MULTI, NO_KEY, slow_log::len),
    command("slowlog|reset", 2, ALWAYS | ADMIN | NO_MULTI, NO_KEY, slow_log::reset),
    command("slowlog|help", 2, ALWAYS, NO_KEY, slow_log::help),
];

const EXTENSIONS: &[Command] = &[
    command("credenza.bucket", -1, ALWAYS | NO_MULTI, NO_KEY, buckets::bucket),
    command("credenza.buckets", -1, ALWAYS | NO_MULTI, NO_KEY, buckets::list),
    command("credenza.create", -2, ADMIN | NO_MULTI, NO_KEY, buckets::create),
    command("credenza.alter", -4, ADMIN | NO_MULTI, NO_KEY, buckets::alter),
    command("credenza.describe", -1, ALWAYS | NO_MULTI, NO_KEY, buckets::describe),
    command("credenza.drop", 2, ADMIN | NO_MULTI, NO_KEY, buckets::drop),
    command("credenza.sequence", -3, WRITE | DENY_OOM, NO_KEY, sequence::sequence),
    command("credenza.tas", -4, WRITE | DENY_OOM, ONE_KEY, extensions::tas),
    command("credenza.confirm", 3, WRITE | DENY_OOM, ONE_KEY, extensions::confirm),
    command("credenza.assert", -3, READ | FAST, ONE_KEY, extensions::assert),
    command("credenza.range", -3, READ, NO_KEY, range::range),
    command("credenza.prefix", -2, READ, NO_KEY, range::prefix),
    command("credenza.delprefix", 2, WRITE, NO_KEY, range::delprefix),
    command("credenza.fetch", -2, READ | FAST | NO_MULTI, ONE_KEY, siblings::fetch),
    command("credenza.store", -3, WRITE | DENY_OOM | NO_MULTI, ONE_KEY, siblings::store),
    command("credenza.remove", -2, WRITE | NO_MULTI, ONE_KEY, siblings::remove),
    command("credenza.feed", -2, READ | NO_MULTI, NO_KEY, feed::feed),
    command("credenza.consistency", -1, ALWAYS | NO_MULTI, NO_KEY, extensions::consistency),
    Command {
        subcommands: INDEX_COMMANDS,
        ..command("credenza.index", -1, ALWAYS | NO_MULTI, NO_KEY, extensions::index)
    },
    command("credenza.retry", -3, ALWAYS | NO_MULTI, NO_KEY, extensions::retry),
    container("credenza.session", -2, extensions::session_help, SESSION),
];

const INDEX_COMMANDS: &[Command] = &[
    command("credenza.index|create", -7, ADMIN | NO_MULTI, NO_KEY, declared_indexes::create),
    command("credenza.index|drop", 3, ADMIN | NO_MULTI, NO_KEY, declared_indexes::drop),
    command("credenza.index|list", 2, ALWAYS | NO_MULTI, NO_KEY, declared_indexes::list),
    command("credenza.index|status", 3, ALWAYS | NO_MULTI, NO_KEY, declared_indexes::status),
    command("credenza.index|range", -5, READ | NO_MULTI, NO_KEY, declared_indexes::range),
    command("credenza.index|help", 2, ALWAYS, NO_KEY, declared_indexes::help),
];

const SESSION: &[Command] = &[
    command("credenza.session|open", 2, ALWAYS | NO_MULTI, NO_KEY, extensions::session_open),
    command("credenza.session|use", 3, ALWAYS | NO_MULTI, NO_KEY, extensions::session_use),
    command("credenza.session|close", -2, ALWAYS | NO_MULTI, NO_KEY, extensions::session_close),
    command("credenza.session|help", 2, ALWAYS, NO_KEY, extensions::session_help),
];

/// Returns every command, without subcommands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    [STRINGS, KEYS, CONNECTION, SERVER, EXTENSIONS].into_iter().flatten()
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

impl Command {
    /// Returns true if the command takes this many arguments, including its name.
    #[inline]
    pub fn accepts_arg_count(&self, args: usize) -> bool {
        let expected = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { args >= expected } else { args == expected }
    }

    /// Finds the subcommand of this name, ignoring case.
    pub fn find_subcommand(&self, child: &[u8]) -> Option<&'static Command> {
        let name = |command: &Command| command.full_name.rsplit('|').next().unwrap_or_default();
        self.subcommands.iter().find(|command| name(command).as_bytes().eq_ignore_ascii_case(child))
    }

    /// Returns true if the command reads or changes rows with one request.
    #[inline]
    pub fn is_data(&self) -> bool {
        self.flags.has(READ | WRITE) && !self.flags.has(NO_MULTI)
    }

    /// Returns true if the command reads or changes rows, and nothing of its connection.
    #[inline]
    pub fn is_row_command(&self) -> bool {
        self.flags.has(READ | WRITE)
    }

    /// Returns true if the command is not shown: it only guards against requests of another
    /// protocol.
    pub fn is_hidden(&self) -> bool {
        self.flags.has(HIDDEN)
    }

    /// Returns the documentation.
    pub fn docs(&self) -> Docs {
        command_docs::find(self.full_name)
    }

    /// Returns Redis' categories of the command.
    pub fn categories(&self) -> Vec<String> {
        let categories = [(READ, "@read"), (WRITE, "@write"), (ADMIN, "@admin"), (FAST, "@fast")];
        let categories = categories.into_iter().filter(|(flag, _)| self.flags.has(*flag));
        let mut all: Vec<String> = categories.map(|(_, name)| name.into()).collect();
        if !self.flags.has(FAST) {
            all.push("@slow".into());
        }
        all.push(format!("@{}", self.docs().group));
        all
    }
}

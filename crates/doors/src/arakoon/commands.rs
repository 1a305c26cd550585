//! The table of commands: code, name, layout of the arguments, and what they count as.
//!
//! `docs/use/arakoon.md` tells of each in words; a test holds that it does.

use super::statistics::Class;
use crate::counters::Operation;

/// One argument's layout.
#[derive(Debug)]
pub enum Field {
    /// A 32-bit number.
    Int,
    /// A 64-bit number.
    Long,
    /// One byte, 0 or 1.
    Flag,
    /// How fresh a read must be: 0, 1, or 2 with an index.
    Consistency,
    /// A string.
    Text,
    /// A string, or none.
    Maybe,
    /// A list whose elements have these fields.
    Many(&'static [Field]),
}

use Field::{Consistency, Flag, Int, Long, Many, Maybe, Text};

/// Which command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Name {
    Ping,
    WhoMaster,
    Exists,
    Get,
    Set,
    Delete,
    Range,
    PrefixKeys,
    TestAndSet,
    LastEntries,
    RangeEntries,
    Sequence,
    MultiGet,
    ExpectProgressPossible,
    Statistics,
    CollapseTlogs,
    UserFunction,
    Assert,
    SetInterval,
    GetRouting,
    SetRouting,
    GetKeyCount,
    GetDb,
    Confirm,
    GetFringe,
    GetInterval,
    SetNurseryCfg,
    GetNurseryCfg,
    SetRoutingDelta,
    MigrateRange,
    RevRangeEntries,
    SyncedSequence,
    OptDb,
    DefragDb,
    DeletePrefix,
    Version,
    AssertExists,
    DropMaster,
    MultiGetOption,
    CurrentState,
    Replace,
    LastEntries2,
    Nop,
    FlushStore,
    GetTxid,
    CopyDbToHead,
    UserHook,
    LastEntries3,
}

/// One command.
#[derive(Debug)]
pub struct Command {
    /// The low half of its word.
    pub code: u32,
    /// Which.
    pub name: Name,
    /// Its name in Arakoon's words.
    pub word: &'static str,
    /// Its arguments.
    pub fields: &'static [Field],
    /// What it counts as at all doors.
    pub operation: Operation,
    /// What it counts as in Arakoon's statistics.
    pub class: Option<Class>,
}

const RANGE: &[Field] = &[Consistency, Maybe, Flag, Maybe, Flag, Int];
const INTERVAL: &[Field] = &[Maybe, Maybe, Maybe, Maybe];
/// Nodes of a cluster: name, addresses, port.
const NODES: &[Field] = &[Text, Many(&[Text]), Int];

const fn row(
    code: u32,
    name: Name,
    word: &'static str,
    fields: &'static [Field],
    operation: Operation,
) -> Command {
    Command { code, name, word, fields, operation, class: None }
}

const fn counted(
    code: u32,
    name: Name,
    word: &'static str,
    fields: &'static [Field],
    operation: Operation,
    class: Class,
) -> Command {
    Command { code, name, word, fields, operation, class: Some(class) }
}

use Operation as Does;

/// All commands, by code.
#[rustfmt::skip]
pub const COMMANDS: [Command; 48] = [
    row(0x01, Name::Ping, "PING", &[Text, Text], Does::Other),
    row(0x02, Name::WhoMaster, "WHO_MASTER", &[], Does::Admin),
    row(0x07, Name::Exists, "EXISTS", &[Consistency, Text], Does::Get),
    counted(0x08, Name::Get, "GET", &[Consistency, Text], Does::Get, Class::Get),
    counted(0x09, Name::Set, "SET", &[Text, Text], Does::Put, Class::Set),
    counted(0x0a, Name::Delete, "DELETE", &[Text], Does::Delete, Class::Delete),
    counted(0x0b, Name::Range, "RANGE", RANGE, Does::Range, Class::Range),
    counted(0x0c, Name::PrefixKeys, "PREFIX_KEYS", &[Consistency, Text, Int], Does::Range,
        Class::Prefix),
    counted(0x0d, Name::TestAndSet, "TEST_AND_SET", &[Text, Maybe, Maybe], Does::Update,
        Class::TestAndSet),
    row(0x0e, Name::LastEntries, "LAST_ENTRIES", &[Long], Does::Admin),
    counted(0x0f, Name::RangeEntries, "RANGE_ENTRIES", RANGE, Does::Range, Class::RangeEntries),
    counted(0x10, Name::Sequence, "SEQUENCE", &[Text], Does::Sequence, Class::Sequence),
    counted(0x11, Name::MultiGet, "MULTI_GET", &[Consistency, Many(&[Text])], Does::MultiGet,
        Class::MultiGet),
    row(0x12, Name::ExpectProgressPossible, "EXPECT_PROGRESS_POSSIBLE", &[], Does::Admin),
    row(0x13, Name::Statistics, "STATISTICS", &[], Does::Admin),
    row(0x14, Name::CollapseTlogs, "COLLAPSE_TLOGS", &[Int], Does::Admin),
    row(0x15, Name::UserFunction, "USER_FUNCTION", &[Text, Maybe], Does::Update),
    row(0x16, Name::Assert, "ASSERT", &[Consistency, Text, Maybe], Does::Get),
    row(0x17, Name::SetInterval, "SET_INTERVAL", INTERVAL, Does::Admin),
    row(0x18, Name::GetRouting, "GET_ROUTING", &[], Does::Admin),
    row(0x19, Name::SetRouting, "SET_ROUTING", &[Text], Does::Admin),
    row(0x1a, Name::GetKeyCount, "GET_KEY_COUNT", &[], Does::Count),
    row(0x1b, Name::GetDb, "GET_DB", &[], Does::Admin),
    row(0x1c, Name::Confirm, "CONFIRM", &[Text, Text], Does::Put),
    row(0x1d, Name::GetFringe, "GET_FRINGE", &[Maybe, Int], Does::Range),
    row(0x1e, Name::GetInterval, "GET_INTERVAL", &[], Does::Admin),
    row(0x1f, Name::SetNurseryCfg, "SET_NURSERY_CFG", &[Text, Many(NODES)], Does::Admin),
    row(0x20, Name::GetNurseryCfg, "GET_NURSERY_CFG", &[], Does::Admin),
    row(0x21, Name::SetRoutingDelta, "SET_ROUTING_DELTA", &[Text, Text, Text], Does::Admin),
    row(0x22, Name::MigrateRange, "MIGRATE_RANGE", &[Maybe, Maybe, Maybe, Maybe, Text],
        Does::Sequence),
    counted(0x23, Name::RevRangeEntries, "REV_RANGE_ENTRIES", RANGE, Does::Range,
        Class::RevRangeEntries),
    counted(0x24, Name::SyncedSequence, "SYNCED_SEQUENCE", &[Text], Does::Sequence,
        Class::Sequence),
    row(0x25, Name::OptDb, "OPT_DB", &[], Does::Admin),
    row(0x26, Name::DefragDb, "DEFRAG_DB", &[], Does::Admin),
    counted(0x27, Name::DeletePrefix, "DELETE_PREFIX", &[Text], Does::Delete,
        Class::DeletePrefix),
    row(0x28, Name::Version, "VERSION", &[], Does::Other),
    row(0x29, Name::AssertExists, "ASSERT_EXISTS", &[Consistency, Text], Does::Get),
    row(0x30, Name::DropMaster, "DROP_MASTER", &[], Does::Admin),
    counted(0x31, Name::MultiGetOption, "MULTI_GET_OPTION", &[Consistency, Many(&[Text])],
        Does::MultiGet, Class::MultiGetOption),
    row(0x32, Name::CurrentState, "CURRENT_STATE", &[], Does::Admin),
    counted(0x33, Name::Replace, "REPLACE", &[Text, Maybe], Does::Update, Class::Replace),
    row(0x40, Name::LastEntries2, "LAST_ENTRIES2", &[Long], Does::Admin),
    row(0x41, Name::Nop, "NOP", &[], Does::Update),
    row(0x42, Name::FlushStore, "FLUSH_STORE", &[], Does::Admin),
    row(0x43, Name::GetTxid, "GET_TXID", &[], Does::Admin),
    row(0x44, Name::CopyDbToHead, "COPY_DB_TO_HEAD", &[Int], Does::Admin),
    row(0x45, Name::UserHook, "USER_HOOK", &[Consistency, Text], Does::Other),
    row(0x46, Name::LastEntries3, "LAST_ENTRIES3", &[Long], Does::Admin),
];

/// The command of a code.
pub fn find(code: u32) -> Option<&'static Command> {
    let at = COMMANDS.binary_search_by_key(&code, |command| command.code).ok()?;
    Some(&COMMANDS[at])
}

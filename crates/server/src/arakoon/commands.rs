//! Table of Arakoon commands: code, name, argument layout, and the statistics that count each.
//!
//! `docs/use/arakoon.md` describes every command; a test checks that none is missing.

use super::statistics::Class;
use crate::counters::OperationKind;

/// Layout of one argument on the wire.
#[derive(Debug)]
pub enum ArgumentLayout {
    /// A 32-bit number.
    Int,
    /// A 64-bit number.
    Long,
    /// One byte, 0 or 1.
    Flag,
    /// Read level in one byte: 0 (consistent), 1 (dirty), or 2 followed by a 64-bit log index.
    Consistency,
    /// A string.
    Text,
    /// A string, or none.
    Maybe,
    /// A list whose elements have these fields.
    List(&'static [ArgumentLayout]),
}

use ArgumentLayout::{Consistency, Flag, Int, List, Long, Maybe, Text};

/// Name of a command, from Arakoon's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CommandName {
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

/// Command of Arakoon's protocol.
#[derive(Debug)]
pub struct ArakoonCommand {
    /// Command code: the low 16 bits of the request's first word.
    pub code: u32,
    /// Name, which the translation matches on.
    pub name: CommandName,
    /// Name in Arakoon's documentation and in the log.
    pub protocol_name: &'static str,
    /// Layout of its arguments, in order.
    pub fields: &'static [ArgumentLayout],
    /// Kind of operation in the request metrics of all front-ends.
    pub operation: OperationKind,
    /// Series in Arakoon's `statistics`. `None`: it is counted only in the total of all requests.
    pub class: Option<Class>,
}

const RANGE: &[ArgumentLayout] = &[Consistency, Maybe, Flag, Maybe, Flag, Int];
const INTERVAL: &[ArgumentLayout] = &[Maybe, Maybe, Maybe, Maybe];
/// Layout of a list of a cluster's nodes: name, addresses, port.
const NODES: &[ArgumentLayout] = &[Text, List(&[Text]), Int];

const fn row(
    code: u32,
    name: CommandName,
    protocol_name: &'static str,
    fields: &'static [ArgumentLayout],
    operation: OperationKind,
) -> ArakoonCommand {
    ArakoonCommand { code, name, protocol_name, fields, operation, class: None }
}

const fn counted(
    code: u32,
    name: CommandName,
    protocol_name: &'static str,
    fields: &'static [ArgumentLayout],
    operation: OperationKind,
    class: Class,
) -> ArakoonCommand {
    ArakoonCommand { code, name, protocol_name, fields, operation, class: Some(class) }
}

use OperationKind as Kind;

/// All commands, sorted by code.
#[rustfmt::skip]
pub const COMMANDS: [ArakoonCommand; 48] = [
    row(0x01, CommandName::Ping, "PING", &[Text, Text], Kind::Other),
    row(0x02, CommandName::WhoMaster, "WHO_MASTER", &[], Kind::Admin),
    row(0x07, CommandName::Exists, "EXISTS", &[Consistency, Text], Kind::Get),
    counted(0x08, CommandName::Get, "GET", &[Consistency, Text], Kind::Get, Class::Get),
    counted(0x09, CommandName::Set, "SET", &[Text, Text], Kind::Put, Class::Set),
    counted(0x0a, CommandName::Delete, "DELETE", &[Text], Kind::Delete, Class::Delete),
    counted(0x0b, CommandName::Range, "RANGE", RANGE, Kind::Range, Class::Range),
    counted(0x0c, CommandName::PrefixKeys, "PREFIX_KEYS", &[Consistency, Text, Int], Kind::Range,
        Class::Prefix),
    counted(0x0d, CommandName::TestAndSet, "TEST_AND_SET", &[Text, Maybe, Maybe], Kind::Update,
        Class::TestAndSet),
    row(0x0e, CommandName::LastEntries, "LAST_ENTRIES", &[Long], Kind::Admin),
    counted(0x0f, CommandName::RangeEntries, "RANGE_ENTRIES", RANGE, Kind::Range,
        Class::RangeEntries),
    counted(0x10, CommandName::Sequence, "SEQUENCE", &[Text], Kind::Sequence, Class::Sequence),
    counted(0x11, CommandName::MultiGet, "MULTI_GET", &[Consistency, List(&[Text])], Kind::MultiGet,
        Class::MultiGet),
    row(0x12, CommandName::ExpectProgressPossible, "EXPECT_PROGRESS_POSSIBLE", &[], Kind::Admin),
    row(0x13, CommandName::Statistics, "STATISTICS", &[], Kind::Admin),
    row(0x14, CommandName::CollapseTlogs, "COLLAPSE_TLOGS", &[Int], Kind::Admin),
    row(0x15, CommandName::UserFunction, "USER_FUNCTION", &[Text, Maybe], Kind::Update),
    row(0x16, CommandName::Assert, "ASSERT", &[Consistency, Text, Maybe], Kind::Get),
    row(0x17, CommandName::SetInterval, "SET_INTERVAL", INTERVAL, Kind::Admin),
    row(0x18, CommandName::GetRouting, "GET_ROUTING", &[], Kind::Admin),
    row(0x19, CommandName::SetRouting, "SET_ROUTING", &[Text], Kind::Admin),
    row(0x1a, CommandName::GetKeyCount, "GET_KEY_COUNT", &[], Kind::Count),
    row(0x1b, CommandName::GetDb, "GET_DB", &[], Kind::Admin),
    row(0x1c, CommandName::Confirm, "CONFIRM", &[Text, Text], Kind::Put),
    row(0x1d, CommandName::GetFringe, "GET_FRINGE", &[Maybe, Int], Kind::Range),
    row(0x1e, CommandName::GetInterval, "GET_INTERVAL", &[], Kind::Admin),
    row(0x1f, CommandName::SetNurseryCfg, "SET_NURSERY_CFG", &[Text, List(NODES)], Kind::Admin),
    row(0x20, CommandName::GetNurseryCfg, "GET_NURSERY_CFG", &[], Kind::Admin),
    row(0x21, CommandName::SetRoutingDelta, "SET_ROUTING_DELTA", &[Text, Text, Text], Kind::Admin),
    row(0x22, CommandName::MigrateRange, "MIGRATE_RANGE", &[Maybe, Maybe, Maybe, Maybe, Text],
        Kind::Sequence),
    counted(0x23, CommandName::RevRangeEntries, "REV_RANGE_ENTRIES", RANGE, Kind::Range,
        Class::RevRangeEntries),
    counted(0x24, CommandName::SyncedSequence, "SYNCED_SEQUENCE", &[Text], Kind::Sequence,
        Class::Sequence),
    row(0x25, CommandName::OptDb, "OPT_DB", &[], Kind::Admin),
    row(0x26, CommandName::DefragDb, "DEFRAG_DB", &[], Kind::Admin),
    counted(0x27, CommandName::DeletePrefix, "DELETE_PREFIX", &[Text], Kind::Delete,
        Class::DeletePrefix),
    row(0x28, CommandName::Version, "VERSION", &[], Kind::Other),
    row(0x29, CommandName::AssertExists, "ASSERT_EXISTS", &[Consistency, Text], Kind::Get),
    row(0x30, CommandName::DropMaster, "DROP_MASTER", &[], Kind::Admin),
    counted(0x31, CommandName::MultiGetOption, "MULTI_GET_OPTION", &[Consistency, List(&[Text])],
        Kind::MultiGet, Class::MultiGetOption),
    row(0x32, CommandName::CurrentState, "CURRENT_STATE", &[], Kind::Admin),
    counted(0x33, CommandName::Replace, "REPLACE", &[Text, Maybe], Kind::Update, Class::Replace),
    row(0x40, CommandName::LastEntries2, "LAST_ENTRIES2", &[Long], Kind::Admin),
    row(0x41, CommandName::Nop, "NOP", &[], Kind::Update),
    row(0x42, CommandName::FlushStore, "FLUSH_STORE", &[], Kind::Admin),
    row(0x43, CommandName::GetTxid, "GET_TXID", &[], Kind::Admin),
    row(0x44, CommandName::CopyDbToHead, "COPY_DB_TO_HEAD", &[Int], Kind::Admin),
    row(0x45, CommandName::UserHook, "USER_HOOK", &[Consistency, Text], Kind::Other),
    row(0x46, CommandName::LastEntries3, "LAST_ENTRIES3", &[Long], Kind::Admin),
];

/// Returns the command with this code, or `None` if no such command exists.
pub fn find(code: u32) -> Option<&'static ArakoonCommand> {
    let position = COMMANDS.binary_search_by_key(&code, |command| command.code).ok()?;
    Some(&COMMANDS[position])
}

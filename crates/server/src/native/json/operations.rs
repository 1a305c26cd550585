//! Table of operations: the name of each in JSON, the fields that it requires and allows, and its
//! result.
//!
//! It is the source of the parser, the OpenAPI document and the tests.

use super::fields::StepField::{self, *};

/// Name of an operation, after the [`base::Update`] or [`base::Read`] that it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OperationName {
    Set,
    SetIf,
    SetIfVersion,
    Delete,
    TestAndSet,
    Replace,
    Confirm,
    Assert,
    AssertExists,
    AssertRange,
    AssertVersion,
    DeletePrefix,
    Add,
    AddFloat,
    Append,
    SetRange,
    Rename,
    Copy,
    Expire,
    Nop,
    Sequence,
    Get,
    Exists,
    MultiGet,
    Range,
    KeyCount,
}

/// Lists in which an operation is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedIn {
    /// Lists of updates.
    Updates,
    /// Reads alone.
    Reads,
    /// Both.
    Anywhere,
}

/// Operation as a step of JSON.
pub struct JsonOperation {
    /// Its word in the field `op`.
    pub word: &'static str,
    /// Its name.
    pub name: OperationName,
    /// Lists in which it is allowed.
    pub place: AllowedIn,
    /// Required fields.
    pub needs: &'static [StepField],
    /// Optional fields.
    pub may: &'static [StepField],
    /// Description in one line, for the document.
    pub doc: &'static str,
}

const fn update(
    word: &'static str,
    name: OperationName,
    needs: &'static [StepField],
    may: &'static [StepField],
    doc: &'static str,
) -> JsonOperation {
    JsonOperation { word, name, place: AllowedIn::Updates, needs, may, doc }
}

const fn read(
    word: &'static str,
    name: OperationName,
    needs: &'static [StepField],
    may: &'static [StepField],
    doc: &'static str,
) -> JsonOperation {
    JsonOperation { word, name, place: AllowedIn::Anywhere, needs, may, doc }
}

/// All operations.
#[rustfmt::skip]
pub const OPERATIONS: [JsonOperation; 26] = [
    update("set", OperationName::Set, &[Key, Value], &[Ttl], "Writes; gives `done`."),
    update("set_if", OperationName::SetIf, &[Key, Value, When], &[Ttl],
        "Writes if `when` holds: always, or the key is absent or present; gives `swapped`."),
    update("set_if_version", OperationName::SetIfVersion, &[Key, Value, Version], &[Ttl],
        "Writes if the row has this version; gives `swapped`."),
    update("delete", OperationName::Delete, &[Key], &[Missing], "Deletes; gives `existed`."),
    update("test_and_set", OperationName::TestAndSet, &[Key, Expected, Wanted], &[],
        "Writes `wanted` (null: deletes) if the value is `expected` (null: absent); gives `old`."),
    update("replace", OperationName::Replace, &[Key, Wanted], &[],
        "Writes `wanted` (null: deletes) whatever is there; gives `old`."),
    update("confirm", OperationName::Confirm, &[Key, Value], &[],
        "Writes only when absent or different; gives `done`."),
    read("assert", OperationName::Assert, &[Key, Expected], &[],
        "Fails with `assertion_failed` unless it holds `expected` (null: absent); gives `done`."),
    read("assert_exists", OperationName::AssertExists, &[Key], &[],
        "Fails with `assertion_failed` unless the key exists; gives `done`."),
    update("assert_range", OperationName::AssertRange, &[Prefix, Keys], &[],
        "Fails with `assertion_failed` unless exactly `keys` begin with `prefix`; gives `done`."),
    update("assert_version", OperationName::AssertVersion, &[Key, Version], &[],
        "Fails with `changed` unless the row has this version (null: absent); gives `done`."),
    update("delete_prefix", OperationName::DeletePrefix, &[Prefix], &[],
        "Deletes all keys under `prefix`; gives `count`."),
    update("add", OperationName::Add, &[Key, Delta], &[],
        "Adds to a decimal 64-bit number (absent counts as 0); gives `number`."),
    update("add_float", OperationName::AddFloat, &[Key, Delta], &[],
        "Adds to a decimal floating point number (absent counts as 0); gives `text`."),
    update("append", OperationName::Append, &[Key, Value], &[], "Appends; gives `length`."),
    update("set_range", OperationName::SetRange, &[Key, Offset, Value], &[],
        "Overwrites from `offset` on, padding with zero bytes; gives `length`."),
    update("rename", OperationName::Rename, &[From, To], &[When],
        "Moves a row; `not_found` if there is none; gives `applied`."),
    update("copy", OperationName::Copy, &[From, To], &[When], "Copies a row; gives `applied`."),
    update("expire", OperationName::Expire, &[Key, Ttl], &[OnlyWhen],
        "Changes when a row expires; gives `applied`."),
    update("nop", OperationName::Nop, &[], &[], "Nothing, but through the log; gives `done`."),
    update("sequence", OperationName::Sequence, &[Steps], &[Mode],
        "Steps that hold together, the later ones seeing the earlier ones; gives `steps`."),
    read("get", OperationName::Get, &[Key], &[], "One row or null: `row`."),
    read("exists", OperationName::Exists, &[Keys], &[], "How many of the keys exist: `count`."),
    read("multi_get", OperationName::MultiGet, &[Keys], &[RequireAll],
        "The rows of the keys in order, null where absent: `rows`."),
    read("range", OperationName::Range, &[],
        &[Prefix, From, To, FromExclusive, ToInclusive, Reverse, Limit, After, Want],
        "A page of rows in key order: `entries`, `more`, `continue`."),
    JsonOperation { word: "key_count", name: OperationName::KeyCount, place: AllowedIn::Reads,
        needs: &[], may: &[], doc: "How many keys the bucket holds, by counting them: `count`." },
];

/// Returns the words of all operations.
pub fn words() -> Vec<&'static str> {
    OPERATIONS.iter().map(|operation| operation.word).collect()
}

/// Returns the operation of this word.
pub fn find(word: &str) -> Option<&'static JsonOperation> {
    OPERATIONS.iter().find(|operation| operation.word == word)
}

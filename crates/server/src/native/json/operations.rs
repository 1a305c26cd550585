//! The table of operations: what each is called in JSON, which fields it needs and may have, what
//! it gives.
//!
//! The reader, the OpenAPI document and the tests are all made from it.

use super::fields::StepField::{self, *};

/// Which of [`base::Update`] or [`base::Read`] an operation becomes.
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

/// Where an operation may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedIn {
    /// Among updates.
    Updates,
    /// Among reads alone.
    Reads,
    /// Both.
    Anywhere,
}

/// One operation.
pub struct JsonOperation {
    /// Its word in `op`.
    pub word: &'static str,
    /// What it becomes.
    pub name: OperationName,
    /// Where it may stand.
    pub place: AllowedIn,
    /// Fields that must be there.
    pub needs: &'static [StepField],
    /// Fields that may be there.
    pub may: &'static [StepField],
    /// One line for the docs.
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

/// The words of all operations.
pub fn words() -> Vec<&'static str> {
    OPERATIONS.iter().map(|operation| operation.word).collect()
}

/// The operation of this word.
pub fn find(word: &str) -> Option<&'static JsonOperation> {
    OPERATIONS.iter().find(|operation| operation.word == word)
}

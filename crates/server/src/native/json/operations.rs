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
    /// Reads outside of lists.
    Reads,
    /// Both.
    Anywhere,
}

/// Operation as a step of JSON.
pub struct JsonOperation {
    /// Its name in the field `op`.
    pub op: &'static str,
    /// Its name.
    pub name: OperationName,
    /// Lists in which it is allowed.
    pub allowed_in: AllowedIn,
    /// Required fields.
    pub required: &'static [StepField],
    /// Optional fields.
    pub optional: &'static [StepField],
    /// Description in one line, for the document.
    pub doc: &'static str,
}

const fn update(
    op: &'static str,
    name: OperationName,
    required: &'static [StepField],
    optional: &'static [StepField],
    doc: &'static str,
) -> JsonOperation {
    JsonOperation { op, name, allowed_in: AllowedIn::Updates, required, optional, doc }
}

const fn read(
    op: &'static str,
    name: OperationName,
    required: &'static [StepField],
    optional: &'static [StepField],
    doc: &'static str,
) -> JsonOperation {
    JsonOperation { op, name, allowed_in: AllowedIn::Anywhere, required, optional, doc }
}

/// All operations.
#[rustfmt::skip]
pub const OPERATIONS: [JsonOperation; 26] = [
    update("set", OperationName::Set, &[Key, Value], &[Ttl], "Writes a value; returns `done`."),
    update("set_if", OperationName::SetIf, &[Key, Value, When], &[Ttl],
        "Writes if `when` holds (always, or the key is absent or present); returns `swapped`."),
    update("set_if_version", OperationName::SetIfVersion, &[Key, Value, Version], &[Ttl],
        "Writes if the row has this version; returns `swapped`."),
    update("delete", OperationName::Delete, &[Key], &[Missing],
        "Deletes a key; returns `existed`."),
    update("test_and_set", OperationName::TestAndSet, &[Key, Expected, Wanted], &[],
        "Writes `wanted` (null: deletes) if the value is `expected` (null: absent); returns \
         `old`."),
    update("replace", OperationName::Replace, &[Key, Wanted], &[],
        "Writes `wanted` (null: deletes) unconditionally; returns `old`, the previous value."),
    update("confirm", OperationName::Confirm, &[Key, Value], &[],
        "Writes only if the key is absent or has another value; returns `done`."),
    read("assert", OperationName::Assert, &[Key, Expected], &[],
        "Fails with `assertion_failed` unless the value is `expected` (null: absent); returns \
         `done`."),
    read("assert_exists", OperationName::AssertExists, &[Key], &[],
        "Fails with `assertion_failed` unless the key exists; returns `done`."),
    update("assert_range", OperationName::AssertRange, &[Prefix, Keys], &[],
        "Fails with `assertion_failed` unless exactly `keys` have the prefix; returns `done`."),
    update("assert_version", OperationName::AssertVersion, &[Key, Version], &[],
        "Fails with `changed` unless the row has this version (null: absent); returns `done`."),
    update("delete_prefix", OperationName::DeletePrefix, &[Prefix], &[],
        "Deletes all keys under `prefix`; returns `count`."),
    update("add", OperationName::Add, &[Key, Delta], &[],
        "Adds to a decimal 64-bit integer (absent: 0); returns the sum as `number`."),
    update("add_float", OperationName::AddFloat, &[Key, Delta], &[],
        "Adds to a decimal floating point number (absent: 0); returns the sum as `text`."),
    update("append", OperationName::Append, &[Key, Value], &[],
        "Appends to a value; returns `length`."),
    update("set_range", OperationName::SetRange, &[Key, Offset, Value], &[],
        "Overwrites the value from byte `offset` on, padding with zero bytes; returns `length`."),
    update("rename", OperationName::Rename, &[From, To], &[When],
        "Moves a row to another key; `not_found` if the row is absent; returns `applied`."),
    update("copy", OperationName::Copy, &[From, To], &[When],
        "Copies a row to another key; returns `applied`."),
    update("expire", OperationName::Expire, &[Key, Ttl], &[OnlyWhen],
        "Changes the expiry time of a row; returns `applied`."),
    update("nop", OperationName::Nop, &[], &[],
        "Changes nothing, but is replicated like any update; returns `done`."),
    update("sequence", OperationName::Sequence, &[Steps], &[Mode],
        "Applies steps, by default atomically; each sees the earlier ones; returns `steps`."),
    read("get", OperationName::Get, &[Key], &[], "Returns a row, or null, as `row`."),
    read("exists", OperationName::Exists, &[Keys], &[],
        "Returns the number of the keys that exist as `count`."),
    read("multi_get", OperationName::MultiGet, &[Keys], &[RequireAll],
        "Returns the rows of the keys in order, null if absent, as `rows`."),
    read("range", OperationName::Range, &[],
        &[Prefix, From, To, FromExclusive, ToInclusive, Reverse, Limit, After, Want],
        "Returns a page of rows in key order: `entries`, `more`, `continue`."),
    JsonOperation { op: "key_count", name: OperationName::KeyCount, allowed_in: AllowedIn::Reads,
        required: &[], optional: &[],
        doc: "Counts the keys of the bucket, at once if it is counted; returns `count`, `bytes`." },
];

/// Returns the JSON names of all operations.
pub fn names() -> Vec<&'static str> {
    OPERATIONS.iter().map(|operation| operation.op).collect()
}

/// Returns the operation of this JSON name.
pub fn find(op: &str) -> Option<&'static JsonOperation> {
    OPERATIONS.iter().find(|operation| operation.op == op)
}

//! Sources of an export: the rows of a consistent bucket, or the keys of an available one with
//! their values.

use super::SiblingsTreatment;
use crate::commands::keys::KeyPages;
use crate::commands::range::Pages;
use api::{Blob, EntryReply, RowsReply, SiblingsReply};
use base::codec::printable;
use base::{Kind, Reason};
use bytes::Bytes;
use client::{Client, HttpCall, encode};
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::json;

/// Number of rows in a page of a consistent bucket.
const PAGE_ROWS: usize = 5_000;
/// Number of keys of an available bucket that are read with one request; fewer if their values are
/// too large together.
const KEYS_PER_READ: u64 = 500;

/// A row for the file.
pub struct ExportRecord {
    pub key: Bytes,
    pub value: Bytes,
}

/// Source of an export.
pub enum Rows {
    /// A consistent bucket.
    Range(Box<Pages>),
    /// An available bucket.
    Keys(Box<KeyValues>),
}

impl Rows {
    /// Returns the next rows, which may be none. `None`: the end.
    pub async fn next(&mut self) -> Outcome<Option<Vec<ExportRecord>>> {
        match self {
            Rows::Keys(values) => values.next().await,
            Rows::Range(pages) => {
                let Some(entries) = pages.next(PAGE_ROWS).await? else { return Ok(None) };
                let record = |entry: EntryReply| record(entry.key, entry.value.unwrap_or_default());
                Ok(Some(entries.into_iter().map(record).collect()))
            }
        }
    }

    /// Returns the number of keys with siblings that were left out.
    pub fn skipped_keys(&self) -> u64 {
        match self {
            Rows::Range(_) => 0,
            Rows::Keys(values) => values.skipped_keys,
        }
    }
}

/// Keys of an available bucket, read with their values.
pub struct KeyValues {
    client: Client,
    /// Path of the bucket.
    path: String,
    /// Query with the read level.
    read_level: String,
    pages: KeyPages,
    siblings: SiblingsTreatment,
    skipped_keys: u64,
}

impl KeyValues {
    /// Returns the source of these keys with their values.
    pub fn new(
        client: Client,
        (path, read_level): (String, String),
        pages: KeyPages,
        siblings: SiblingsTreatment,
    ) -> KeyValues {
        KeyValues { client, path, read_level, pages, siblings, skipped_keys: 0 }
    }

    async fn next(&mut self) -> Outcome<Option<Vec<ExportRecord>>> {
        let Some(keys) = self.pages.next(KEYS_PER_READ).await? else { return Ok(None) };
        let mut records = Vec::with_capacity(keys.len());
        // Stack of key lists; the first keys in the order are on top.
        let mut pending = vec![keys];
        while let Some(mut keys) = pending.pop() {
            if keys.is_empty() {
                continue;
            }
            match self.read(&keys, &mut records).await {
                // One key with siblings, or one too many large values, fails the read of all:
                // halving finds the key in a few requests.
                Err(failure) if keys.len() > 1 && is_caused_by_one_key(&failure) => {
                    let second_half = keys.split_off(keys.len() / 2);
                    pending.extend([second_half, keys]);
                }
                Err(failure) if failure.reason() == Some(Reason::Siblings) => {
                    self.export_siblings(&keys[0], &mut records).await?;
                }
                other => other?,
            }
        }
        Ok(Some(records))
    }

    /// Reads keys that have one value each. A key that was deleted meanwhile is skipped.
    async fn read(&mut self, keys: &[Blob], records: &mut Vec<ExportRecord>) -> Outcome {
        let path = format!("{}/multi_get?{}", self.path, self.read_level);
        let call = HttpCall::new(Method::POST, path).with_json(&json!({ "keys": keys }));
        let RowsReply { rows } = self.client.call(call).await?.read()?;
        if rows.len() != keys.len() {
            let text = "the node's answer is of another version: is --url right?";
            return Err(Failure::new(Kind::Invalid, text));
        }
        let present = keys.iter().zip(rows).filter_map(|(key, row)| Some((key, row?)));
        records.extend(present.map(|(key, row)| record(key.clone(), row.value)));
        Ok(())
    }

    /// Treats a key that has siblings as the flag `--siblings` requires.
    async fn export_siblings(&mut self, key: &Blob, records: &mut Vec<ExportRecord>) -> Outcome {
        let shown = printable(&key.0);
        match self.siblings {
            SiblingsTreatment::Stop => {
                let text = format!(
                    "the key {shown} has siblings: resolve them (`credenza siblings --help`), or \
                     export them with --siblings each, or leave such keys out with --siblings skip"
                );
                return Err(Failure::new(Kind::Conflict, text));
            }
            SiblingsTreatment::Skip => {
                eprintln!("credenza: the key {shown} has siblings: left out");
                self.skipped_keys += 1;
                return Ok(());
            }
            SiblingsTreatment::Each => {}
        }
        let call = HttpCall::new(Method::GET, format!("{}/siblings/{}", self.path, encode(&key.0)));
        let Some(answer) = self.client.call_key(call).await? else { return Ok(()) };
        let reply: SiblingsReply = answer.read()?;
        // The oldest first: an import, which keeps the last value of a key, ends with the newest.
        let values = reply.siblings.into_iter().rev().filter_map(|sibling| sibling.value);
        records.extend(values.map(|value| record(key.clone(), value)));
        Ok(())
    }
}

fn record(key: Blob, value: Blob) -> ExportRecord {
    ExportRecord { key: key.0, value: value.0 }
}

/// Returns true if one key can make the read of many keys fail.
fn is_caused_by_one_key(failure: &Failure) -> bool {
    matches!(failure.reason(), Some(Reason::Siblings | Reason::TooLarge))
}

//! Log of the group that decided a history, read value by value from its members.

use super::Cluster;
use super::status::DATA;
use crate::checkers::replay::Decided;
use crate::checkers::transactions::{Committed, ValueEffect};
use crate::client::Http;
use base::codec::{Malformed, Reader};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Largest number of requests in flight.
const PIPELINE: usize = 64;
/// Formats of a value: effects, or a stop-sign.
const EFFECTS: u8 = 1;
const STOP_SIGN: u8 = 2;
/// Tags of effects.
const REMOVE: u8 = 0;
const PUT: u8 = 1;
/// Kind of a tree key, after the group's four bytes: a row.
const ROW: u8 = 1;
/// Flag of a row: eight bytes hold its expiry time.
const HAS_EXPIRY: u8 = 1;

impl Cluster {
    /// Returns the effects of the data group's log, after `after` and up to `last`, on these keys
    /// of the default bucket. Fails if no member has the values any more, or they can't be read.
    pub fn decided(
        &self,
        after: u64,
        last: u64,
        keys: &BTreeSet<&str>,
    ) -> Result<Vec<Decided>, String> {
        let committed = self.committed(after, last, &|key| keys.contains(key))?;
        let without_expiry = |effect: ValueEffect| (effect.key, effect.row.map(|(value, _)| value));
        let decided = |Committed { index, effects, .. }: Committed| Decided {
            index,
            effects: effects.into_iter().map(without_expiry).collect(),
        };
        Ok(committed.into_iter().map(decided).collect())
    }

    /// Returns the decided values with their group times; `is_wanted` selects the keys.
    pub fn committed(
        &self,
        after: u64,
        last: u64,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Committed>, String> {
        let mut missing: BTreeSet<u64> = (after + 1..=last).collect();
        let mut values = BTreeMap::new();
        for node in self.nodes() {
            let address = self.admin_address(node);
            let missing_indexes: Vec<u64> = missing.iter().copied().collect();
            let found =
                self.run_on_node(node, || payloads(Http::connect(address)?, &missing_indexes));
            for (index, payload) in found.map_err(|error| format!("node {node}: {error}"))? {
                missing.remove(&index);
                let value = decode_committed(index, &payload, is_wanted);
                let value = value.map_err(|Malformed(what)| format!("{index}: {what}"))?;
                values.insert(index, value);
            }
        }
        match missing.first() {
            None => Ok(values.into_values().collect()),
            Some(first) => Err(format!("no member has value {first} any more")),
        }
    }

    /// Returns the decided index of the data's group, as its master reports it.
    pub fn decided_index(&self) -> u64 {
        self.group_status(self.master(), DATA).map_or(0, |status| status.applied)
    }
}

/// Returns the values at these indexes that one node has.
fn payloads(mut web: Http, indexes: &[u64]) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut found = Vec::new();
    for batch in indexes.chunks(PIPELINE) {
        let mut requests = String::new();
        for index in batch {
            let path = format!("/v1/cluster/groups/{DATA}/values/{index}");
            requests.push_str(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", web.host()));
        }
        web.send(requests.as_bytes())?;
        for index in batch {
            let answer = web.receive(false)?;
            match (answer.status, answer.reason().as_str()) {
                (200, _) => found.push((*index, answer.body)),
                (_, "stale_replica") => {}
                _ => return Err(io::Error::other(format!("{index}: {}", answer.text()))),
            }
        }
    }
    Ok(found)
}

/// Decodes a value, with its effects on the selected rows.
fn decode_committed(
    index: u64,
    payload: &[u8],
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Committed, Malformed> {
    let mut reader = Reader::new(payload);
    let format = reader.u8("value format")?;
    let (time_ms, _version) = (reader.u64("value time")?, reader.u64("value version")?);
    let _updates = reader.u32("value updates")?;
    let mut effects = Vec::new();
    match format {
        STOP_SIGN => return Ok(Committed { index, time_ms, effects }),
        EFFECTS => {}
        _ => return Err(Malformed("value format")),
    }
    while !reader.rest().is_empty() {
        let tag = reader.u8("effect tag")?;
        let key_bytes = reader.u32("effect key length")? as usize;
        let row_bytes = reader.u32("effect row length")? as usize;
        let key = reader.take(key_bytes, "effect key")?;
        let row = reader.take(row_bytes, "effect row")?;
        // The key consists of group, kind, bucket, then the row's name.
        let name = key.get(9..).filter(|_| key[4] == ROW);
        let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) else { continue };
        if is_wanted(name) {
            let row = match tag {
                PUT => Some(decode_row(row)?),
                REMOVE => None,
                _ => return Err(Malformed("effect tag")),
            };
            effects.push(ValueEffect { key: name.into(), row });
        }
    }
    Ok(Committed { index, time_ms, effects })
}

/// Returns the value of a row, and its expiry time.
fn decode_row(row: &[u8]) -> Result<(Vec<u8>, Option<u64>), Malformed> {
    let mut reader = Reader::new(row);
    let flags = reader.u8("row flags")?;
    reader.u64("row version")?;
    let expires = match flags & HAS_EXPIRY {
        0 => None,
        _ => Some(reader.u64("row expiry")?),
    };
    Ok((reader.rest().to_vec(), expires))
}

//! Random updates, reads and restarts against a naive twin: a map and a few lines per update. In
//! half of the histories the bucket is counted.

use super::test_cluster::wait;
use super::{Place, read, request, update};
use base::range::{Bound, Direction};
use base::request::{Expiry, OnMissing, SequenceMode, When};
use base::{
    Body, BucketName, Call, DirectoryCall, Error, Outcome, Range, Read, Reason, Result, Update,
};
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;

type Map = BTreeMap<Bytes, Bytes>;

fn key(rng: &mut StdRng) -> Bytes {
    let keys: [&'static [u8]; 9] = [b"", b"a", b"ab", b"abc", b"b", b"b\xff", b"\xff", b"\0", b"c"];
    Bytes::from_static(keys[rng.random_range(0..keys.len())])
}

fn value(rng: &mut StdRng) -> Bytes {
    match rng.random_range(0..4) {
        0 => Bytes::from(rng.random_range(-20..20).to_string()),
        1 => Bytes::new(),
        2 => Bytes::from(vec![b'x'; rng.random_range(0..300)]),
        _ => Bytes::from_static(b"v"),
    }
}

fn maybe(rng: &mut StdRng, map: &Map, key: &Bytes) -> Option<Bytes> {
    match rng.random_range(0..3) {
        0 => None,
        1 => map.get(key).cloned(),
        _ => Some(value(rng)),
    }
}

fn random(rng: &mut StdRng, map: &Map, depth: u32) -> Update {
    let (k, v) = (key(rng), value(rng));
    match rng.random_range(0..if depth < 3 { 19 } else { 17 }) {
        0 | 1 => Update::Set { key: k, value: v, expiry: Expiry::Default },
        2 => Update::Delete { key: k, missing: OnMissing::Fail },
        3 => Update::Delete { key: k, missing: OnMissing::Skip },
        4 => {
            let (expected, wanted) = (maybe(rng, map, &k), maybe(rng, map, &k));
            Update::TestAndSet { key: k, expected, wanted }
        }
        5 => Update::Replace { wanted: maybe(rng, map, &k), key: k },
        6 => Update::Confirm { key: k, value: v },
        7 => Update::Assert { expected: maybe(rng, map, &k), key: k },
        8 => Update::AssertExists { key: k },
        9 => {
            let under = map.keys().filter(|key| key.starts_with(&k)).cloned();
            let mut keys: Vec<_> = under.rev().collect();
            if rng.random_range(0..4) == 0 {
                keys.push(key(rng));
            }
            Update::AssertRange { prefix: k, keys }
        }
        10 => Update::DeletePrefix { prefix: k },
        11 => Update::Add { key: k, delta: rng.random_range(-5..5) },
        12 => Update::Append { key: k, value: v },
        13 => Update::SetRange { key: k, offset: rng.random_range(0..20), value: v },
        14 => Update::Rename { from: k, to: key(rng), when: when(rng) },
        15 => Update::Copy { from: k, to: key(rng), when: when(rng) },
        16 => {
            let when = if rng.random() { When::Absent } else { When::Present };
            Update::SetIf { key: k, value: v, expiry: Expiry::Default, when }
        }
        _ => {
            let count = rng.random_range(0..6);
            let steps = (0..count).map(|_| random(rng, map, depth + 1)).collect();
            let modes = [
                SequenceMode::AllOrNothing,
                SequenceMode::Synced,
                SequenceMode::EachAlone,
                SequenceMode::Batch,
            ];
            let mode = modes[rng.random_range(0..modes.len())];
            Update::Sequence { steps, mode }
        }
    }
}

fn when(rng: &mut StdRng) -> When {
    if rng.random() { When::Absent } else { When::Always }
}

/// Applies an update to the model, as plainly as possible.
fn twin(map: &mut Map, update: &Update) -> Result<Outcome> {
    let put = |map: &mut Map, key: &Bytes, value: Option<Bytes>| match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(key),
    };
    match update {
        Update::Set { key, value, .. } | Update::Confirm { key, value } => {
            map.insert(key.clone(), value.clone());
            Ok(Outcome::Done)
        }
        Update::Delete { key, missing } => match (map.remove(key).is_some(), missing) {
            (false, OnMissing::Fail) => Err(Error::key(Reason::NotFound, key)),
            (existed, _) => Ok(Outcome::Existed(existed)),
        },
        Update::TestAndSet { key, expected, wanted } => {
            let old = map.get(key).cloned();
            if old == *expected {
                put(map, key, wanted.clone());
            }
            Ok(Outcome::Old(old))
        }
        Update::Replace { key, wanted } => Ok(Outcome::Old(put(map, key, wanted.clone()))),
        Update::DeletePrefix { prefix } => {
            let before = map.len();
            map.retain(|key, _| !key.starts_with(prefix));
            Ok(Outcome::Count((before - map.len()) as u64))
        }
        Update::SetIf { key, value, when, .. } => {
            let old = map.get(key).cloned();
            let written = (*when == When::Absent) == old.is_none();
            if written {
                map.insert(key.clone(), value.clone());
            }
            Ok(Outcome::Swapped { written, old })
        }
        Update::Sequence { steps, mode } => sequence_twin(map, steps, *mode),
        _ => text_twin(map, update),
    }
}

/// The updates that make a value of the one before, or move it.
fn text_twin(map: &mut Map, update: &Update) -> Result<Outcome> {
    match update {
        Update::Add { key, delta } => {
            let text = map.get(key).cloned().unwrap_or(Bytes::from_static(b"0"));
            let number = base::codec::decimal(&text);
            let number = number.ok_or(Error::new(Reason::NotANumber, ""))? + delta;
            map.insert(key.clone(), Bytes::from(number.to_string()));
            Ok(Outcome::Number(number))
        }
        Update::Append { key, value } => {
            let mut text = map.get(key).cloned().unwrap_or_default().to_vec();
            text.extend_from_slice(value);
            let length = text.len() as u64;
            map.insert(key.clone(), text.into());
            Ok(Outcome::Length(length))
        }
        Update::SetRange { key, offset, value } => {
            let mut text = map.get(key).cloned().unwrap_or_default().to_vec();
            if value.is_empty() {
                return Ok(Outcome::Length(text.len() as u64));
            }
            let length = text.len().max(offset + value.len());
            text.resize(length, 0);
            text[*offset..offset + value.len()].copy_from_slice(value);
            map.insert(key.clone(), text.into());
            Ok(Outcome::Length(length as u64))
        }
        Update::Rename { from, to, when } | Update::Copy { from, to, when } => {
            let rename = matches!(update, Update::Rename { .. });
            let Some(value) = map.get(from).cloned() else {
                let missing = Err(Error::key(Reason::NotFound, from));
                return if rename { missing } else { Ok(Outcome::Applied(false)) };
            };
            if *when == When::Absent && map.contains_key(to) {
                return Ok(Outcome::Applied(false));
            }
            if rename {
                map.remove(from);
            }
            map.insert(to.clone(), value);
            Ok(Outcome::Applied(true))
        }
        _ => assertion_twin(map, update),
    }
}

/// Applies an update that writes nothing to the model.
fn assertion_twin(map: &Map, update: &Update) -> Result<Outcome> {
    let failed = |key: &Bytes| Err(Error::key(Reason::AssertionFailed, key));
    match update {
        Update::Assert { key, expected } if map.get(key) != expected.as_ref() => failed(key),
        Update::AssertExists { key } if !map.contains_key(key) => failed(key),
        Update::Assert { .. } | Update::AssertExists { .. } => Ok(Outcome::Done),
        Update::AssertRange { prefix, keys } => {
            let under = map.keys().filter(|key| key.starts_with(prefix));
            let wanted: std::collections::BTreeSet<_> = keys.iter().collect();
            match under.eq(wanted) {
                true => Ok(Outcome::Done),
                false => Err(Error::new(Reason::AssertionFailed, "")),
            }
        }
        other => panic!("no twin for {other:?}"),
    }
}

fn sequence_twin(map: &mut Map, steps: &[Update], mode: SequenceMode) -> Result<Outcome> {
    let (before, mut outcomes) = (map.clone(), Vec::new());
    for step in steps {
        let so_far = map.clone();
        let outcome = twin(map, step);
        let nested = matches!(step, Update::Sequence { .. });
        let fatal = matches!(&outcome, Err(error) if mode != SequenceMode::EachAlone
            || error.reason == Reason::AssertionFailed && !nested);
        if fatal {
            *map = before;
            return outcome;
        }
        if outcome.is_err() {
            *map = so_far;
        }
        outcomes.push(outcome);
    }
    Ok(Outcome::Steps(outcomes))
}

/// Errors are compared by reason, since details are sentences.
fn plain(outcome: Result<Outcome>) -> std::result::Result<Outcome, Reason> {
    let outcome = outcome.map_err(|error| error.reason)?;
    Ok(match outcome {
        Outcome::Steps(steps) => Outcome::Steps(
            steps
                .into_iter()
                .map(|step| plain(step).map_err(|reason| Error::new(reason, "")))
                .collect(),
        ),
        outcome => outcome,
    })
}

async fn same_rows(node: &crate::Node, map: &Map, rng: &mut StdRng) {
    let bound = |rng: &mut StdRng| match rng.random_range(0..3) {
        0 => Bound::Open,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    };
    let (low, high) = (bound(rng), bound(rng));
    let direction = if rng.random() { Direction::Ascending } else { Direction::Descending };
    let rows_max = rng.random_range(0..6);
    let range = Range { low, high, direction, rows_max: Some(rows_max), ..Range::default() };
    let inside = |key: &Bytes| {
        (match &range.low {
            Bound::Open => true,
            Bound::Included(low) => key >= low,
            Bound::Excluded(low) => key > low,
        }) && (match &range.high {
            Bound::Open => true,
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
        })
    };
    let mut expected: Vec<_> = map.iter().filter(|(key, _)| inside(key)).collect();
    if direction == Direction::Descending {
        expected.reverse();
    }
    let more = rows_max > 0 && expected.len() > rows_max;
    expected.truncate(rows_max);
    let Body::Page(page) = read(node, Read::Range(range)).await.expect("a page").body else {
        panic!("a range gives a page")
    };
    let found =
        page.entries.iter().map(|entry| (&entry.key, &entry.row.as_ref().expect("a row").value));
    assert!(found.eq(expected), "a page differs from the twin's");
    assert_eq!(page.more, more);
    let keys = map.len() as u64;
    let bytes = map.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() as u64;
    let count = read(node, Read::KeyCount).await.expect("a count").body;
    let expected = match node.has_count(&BucketName::default()) {
        true => Body::Size { keys, bytes },
        false => Body::Count(keys),
    };
    assert_eq!(count, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_updates_match_the_reference_model_across_restarts() {
    for seed in 0..6 {
        let (place, mut rng) = (Place::new(), StdRng::seed_from_u64(seed));
        let (mut node, mut map) = (place.start().await, Map::new());
        if seed % 2 == 1 {
            let counted = vec![("counted".to_string(), "true".to_string())];
            let alter = Call::Directory(DirectoryCall::AlterBucket(counted));
            node.handle(&base::Principal::Node, request(alter)).await.expect("altered");
            let has_count = || node.has_count(&BucketName::default()).then_some(());
            wait("the count", has_count).await;
        }
        for step in 0..400 {
            let random = random(&mut rng, &map, 0);
            let expected = plain(twin(&mut map, &random));
            let found = plain(update(&node, random.clone()).await);
            assert_eq!(found, expected, "seed {seed} step {step}: {random:?}");
            if step % 10 == 0 {
                same_rows(&node, &map, &mut rng).await;
            }
            if step % 100 == 99 {
                node.stop().await.expect("it stops");
                node = place.start().await;
            }
        }
        same_rows(&node, &map, &mut rng).await;
        node.stop().await.expect("it stops");
    }
}

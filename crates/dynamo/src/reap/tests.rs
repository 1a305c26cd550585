//! Agreements of the reaper, and its rests.

use super::*;
use base::BucketName;
use runtime::world;

/// Time between the two agreements on a row.
const AFTER_MS: u64 = 1_000;

fn at(milliseconds: u64) {
    world::set_time(Some(milliseconds * 1_000_000));
}

fn tombstones(digests: &[u128]) -> Vec<Tombstone> {
    let bucket = BucketName::new("available", "b").expect("a name");
    let key_ref = |digest: u128| KeyRef::new(bucket.clone(), digest.to_be_bytes().to_vec().into());
    digests.iter().map(|digest| Tombstone { key_ref: key_ref(*digest), digest: *digest }).collect()
}

fn agree(reaper: &mut Reaper, digest: u128) {
    let since_ms = world::milliseconds();
    reaper.agreed.insert(digest, Agreement { since_ms, round: reaper.round });
}

fn digests(rows: (Vec<Tombstone>, Vec<Tombstone>)) -> (Vec<u128>, Vec<u128>) {
    let of = |rows: Vec<Tombstone>| rows.into_iter().map(|row| row.digest).collect();
    (of(rows.0), of(rows.1))
}

#[test]
fn agreed_tombstone_is_confirmed_again_only_after_the_delay() {
    let mut reaper = Reaper::default();
    at(5_000);
    assert_eq!(digests(reaper.split(tombstones(&[1, 2]), AFTER_MS)), (vec![1, 2], vec![]));
    agree(&mut reaper, 1);
    at(5_999);
    assert_eq!(digests(reaper.split(tombstones(&[1, 2]), AFTER_MS)), (vec![2], vec![]));
    at(6_000);
    assert_eq!(digests(reaper.split(tombstones(&[1, 2]), AFTER_MS)), (vec![2], vec![1]));
    // After the second agreement, confirmed or not, the row starts over.
    assert_eq!(digests(reaper.split(tombstones(&[1]), AFTER_MS)), (vec![1], vec![]));
    world::set_time(None);
}

#[test]
fn agreement_on_a_changed_tombstone_is_forgotten_after_the_round() {
    let mut reaper = Reaper::default();
    at(5_000);
    agree(&mut reaper, 1);
    agree(&mut reaper, 2);
    reaper.rest_after(Duration::ZERO);
    // Row 2 has changed since: it has digest 3.
    assert_eq!(digests(reaper.split(tombstones(&[1, 3]), AFTER_MS)), (vec![3], vec![]));
    reaper.cursor = Some(Bytes::from_static(b"more"));
    reaper.rest_after(Duration::ZERO);
    assert_eq!(reaper.agreed.len(), 2, "the round is not over");
    reaper.cursor = None;
    reaper.rest_after(Duration::ZERO);
    assert!(reaper.agreed.keys().eq([&1]));
    world::set_time(None);
}

#[test]
fn reaper_reads_a_tenth_of_the_time_and_less_if_nothing_is_dropped() {
    let cursor = Some(Bytes::from_static(b"more"));
    let mut reaper = Reaper { cursor, ..Reaper::default() };
    assert_eq!(reaper.rest_after(Duration::from_millis(100)), Duration::from_millis(900));
    assert_eq!(reaper.rest_after(Duration::ZERO), REST_MIN);
    reaper.cursor = None;
    // The round read for 400 ms in all, and nothing was dropped.
    let rest = reaper.rest_after(Duration::from_millis(300));
    assert_eq!(rest, Duration::from_millis(400) * REST_FACTOR);
    assert_eq!(reaper.rest_after(Duration::from_secs(60)), PAUSE_MAX);
    reaper.made_progress = true;
    assert_eq!(reaper.rest_after(Duration::from_secs(60)), PAUSE);
    assert_eq!(reaper.rest_after(Duration::ZERO), PAUSE);
}

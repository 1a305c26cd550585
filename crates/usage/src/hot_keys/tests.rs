//! Tests of hot keys: the laws of the sketches, decay, bounds, and the sample.

use super::space_saving::{COUNTERS_MAX, KEY_KEPT_BYTES_MAX};
use super::*;
use base::{Key, Read, ReadLevel};

fn bucket(name: &str) -> BucketName {
    BucketName::parse(name).expect("a name")
}

fn at(second: u64) {
    world::set_time(Some(second * 1_000_000_000));
}

/// Pseudo-random numbers below a bound.
fn numbers(below: u64) -> impl FnMut() -> u64 {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) % below
    }
}

#[test]
fn key_with_more_than_a_64th_of_the_accesses_is_listed_whatever_the_others_are() {
    at(1);
    let (hot, carts) = (HotKeys::new(true), bucket("default/carts"));
    let mut number = numbers(1 << 40);
    for round in 0..20_000_u32 {
        // One access of 60 is to the hot key, in bursts; all others are to keys seen once.
        let key = if round % 1_200 < 20 { "hot".into() } else { format!("k{}", number()) };
        hot.count_sample(&carts, KeyAccess::Read, key.as_bytes());
    }
    let listed = hot.list();
    assert!(listed.len() <= COUNTERS_MAX);
    let found = listed
        .iter()
        .find(|key| key.key_begin.as_deref() == Some(&b"hot"[..]))
        .expect("it is frequent");
    let error = 1.0 / COUNTERS_MAX as f64;
    assert!((1.0 / 60.0..=1.0 / 60.0 + error).contains(&found.share), "{}", found.share);
    let digest = crate::KeyFingerprint::of(b"hot").digest("default/carts");
    assert_eq!((found.key_digest, found.key_bytes), (digest, 3));
    world::set_time(None);
}

#[test]
fn counts_are_of_each_bucket_and_kind_of_access() {
    at(1);
    let hot = HotKeys::new(true);
    for _ in 0..30 {
        hot.count_sample(&bucket("default/a"), KeyAccess::Read, b"k");
        hot.count_sample(&bucket("default/a"), KeyAccess::Read, b"l");
        hot.count_sample(&bucket("default/a"), KeyAccess::Write, b"k");
    }
    for _ in 0..10 {
        hot.count_sample(&bucket("default/rarely"), KeyAccess::Write, b"k");
    }
    let listed = hot.list();
    let mut shares: Vec<_> = listed
        .iter()
        .map(|key| {
            // Sums of weights are rounded.
            let share = (key.share * 1e6).round() / 1e6;
            (key.bucket.full().to_string(), key.access, key.key_begin.clone(), share)
        })
        .collect();
    shares.sort_by(|one, two| (one.1, &one.2).cmp(&(two.1, &two.2)));
    let a = || "default/a".to_string();
    assert_eq!(
        shares,
        [
            (a(), KeyAccess::Read, Some(Bytes::from_static(b"k")), 0.5),
            (a(), KeyAccess::Read, Some(Bytes::from_static(b"l")), 0.5),
            (a(), KeyAccess::Write, Some(Bytes::from_static(b"k")), 1.0),
        ],
        "ten samples say little"
    );
    world::set_time(None);
}

#[test]
fn accesses_decay_within_a_minute_and_rates_follow() {
    let (hot, carts) = (HotKeys::new(true), bucket("default/carts"));
    for second in 1_000..1_120 {
        at(second);
        (0..10).for_each(|_| hot.count_sample(&carts, KeyAccess::Write, b"old"));
    }
    // Ten samples a second are 640 requests a second.
    let rate = |key: &[u8]| {
        let listed = hot.list();
        listed
            .iter()
            .find(|hot| hot.key_begin.as_deref() == Some(key))
            .map(|hot| hot.per_second.round())
    };
    let old = rate(b"old").expect("it is hot");
    assert!((600.0..680.0).contains(&old), "{old}");
    at(1_120 + 59);
    let later = rate(b"old").expect("an eighth is left");
    assert!((later - old / 8.0).abs() < 4.0, "{later} of {old}");
    for second in 1_180..1_240 {
        at(second);
        (0..10).for_each(|_| hot.count_sample(&carts, KeyAccess::Write, b"new"));
    }
    let listed = hot.list();
    assert_eq!(listed[0].key_begin.as_deref(), Some(&b"new"[..]));
    assert!(listed[0].share > 0.95, "{}", listed[0].share);
    // Also across the time at which all weights are made small again.
    at(1_240 + 2 * RESCALE_HALF_LIVES * HALF_LIFE_MS / 1_000);
    assert!(hot.list().is_empty());
    (0..20).for_each(|_| hot.count_sample(&carts, KeyAccess::Write, b"last"));
    let listed = hot.list();
    assert_eq!((listed.len(), listed[0].key_begin.as_deref()), (1, Some(&b"last"[..])));
    world::set_time(None);
}

#[test]
fn memory_is_bounded_whatever_clients_send() {
    at(1);
    let hot = HotKeys::new(true);
    let mut number = numbers(1 << 40);
    let busy = bucket("default/busy");
    for round in 0..30_000 {
        let name = bucket(&format!("available/b{}", number()));
        let mut key = number().to_be_bytes().to_vec();
        key.resize(4 * KEY_KEPT_BYTES_MAX, b'x');
        hot.count_sample(&name, KeyAccess::Write, &key);
        if round % 20 == 0 {
            hot.count_sample(&busy, KeyAccess::Read, &key);
        }
    }
    let sketches = hot.lock();
    assert_eq!(sketches.buckets.len(), BUCKETS_MAX);
    assert!(sketches.buckets.contains_key(&busy), "a busy bucket keeps its place");
    for sketch in sketches.buckets.values() {
        assert!(sketch.reads.len() <= COUNTERS_MAX && sketch.writes.len() <= COUNTERS_MAX);
    }
    drop(sketches);
    for key in hot.list() {
        let kept = key.key_begin.map(|begin| begin.len());
        assert_eq!((kept, key.key_bytes), (Some(KEY_KEPT_BYTES_MAX), 512));
    }
    world::set_time(None);
}

#[test]
fn one_request_of_64_is_sampled_and_none_if_it_is_turned_off() {
    at(1);
    let (hot, off, carts) = (HotKeys::new(true), HotKeys::new(false), bucket("default/carts"));
    let key = Key::from_static(b"single");
    let call = Call::Read(Read::Get(key), ReadLevel::Consistent);
    let request = Request { bucket: carts.clone(), call, retry: None };
    let run: Vec<&[u8]> = vec![&b"in a run"[..]; 64];
    for _ in 0..1_000 {
        (0..64).for_each(|_| hot.count(&request));
        hot.count_run(&carts, KeyAccess::Read, run.iter().copied());
        off.count(&request);
        off.count_run(&carts, KeyAccess::Read, run.iter().copied());
    }
    let samples = hot.lock().buckets[&carts].reads.total();
    assert!((1_900.0..2_100.0).contains(&samples), "{samples} of 128,000");
    let listed = hot.list();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|key| (0.45..0.55).contains(&key.share)), "{listed:?}");
    assert!(off.list().is_empty() && off.lock().buckets.is_empty());
    world::set_time(None);
}

#[test]
fn key_that_takes_most_of_many_accesses_is_reported_without_the_key() {
    let (hot, carts) = (HotKeys::new(true), bucket("default/carts"));
    let mut number = numbers(1 << 40);
    for second in 1_000..1_100 {
        at(second);
        for _ in 0..30 {
            hot.count_sample(&carts, KeyAccess::Write, b"counter");
            hot.count_sample(&bucket("default/b"), KeyAccess::Read, &number().to_be_bytes());
        }
        for _ in 0..10 {
            hot.count_sample(&bucket("default/b"), KeyAccess::Write, &number().to_be_bytes());
        }
    }
    let found = hot.concentrated();
    assert_eq!(found.len(), 1, "{found:?}");
    let ConcentratedAccess { bucket, access, share, per_second } = &found[0];
    assert_eq!((bucket, *access), (&carts, KeyAccess::Write));
    assert!((0.74..0.76).contains(share) && (1_800.0..2_000.0).contains(per_second), "{found:?}");
    at(1_200);
    assert!(hot.concentrated().is_empty(), "it is over");
    world::set_time(None);
}

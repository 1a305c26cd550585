//! Tests of `RANDOMKEY`: it can return every key, and reads few rows for it.

use super::test_client::{Guest, TestServer};
use std::collections::{BTreeMap, BTreeSet};

/// Returns all keys that came in this many draws.
fn drawn(guest: &mut Guest, draws: usize) -> BTreeSet<String> {
    (0..draws).map(|_| guest.ask(&["RANDOMKEY"])).collect()
}

#[test]
fn every_key_comes_where_they_are_few_and_where_they_lie_close_together() {
    let server = TestServer::build();
    let mut guest = Guest::new(server.address);
    assert_eq!(drawn(&mut guest, 1), BTreeSet::from(["$-1|".into()]));
    guest.ask(&["SET", "bar", "1"]);
    assert_eq!(drawn(&mut guest, 9), BTreeSet::from(["$3|bar|".into()]));
    guest.ask(&["SET", "foo", "2"]);
    assert_eq!(drawn(&mut guest, 200).len(), 2);
    guest.ask(&["DEL", "bar", "foo"]);
    for user in 0..200 {
        guest.ask(&["SET", &format!("user:{user}"), "3"]);
    }
    assert_eq!(drawn(&mut guest, 4_000).len(), 200);
}

#[test]
fn no_key_comes_oftener_than_another_where_they_are_few() {
    let server = TestServer::build();
    let mut guest = Guest::new(server.address);
    // Gaps of all sizes don't matter when all keys are drawn from.
    let keys: Vec<_> = (0..40).map(|key: u32| format!("k{:08}", key.pow(5))).collect();
    for key in &keys {
        guest.ask(&["SET", key, "1"]);
    }
    let mut times = BTreeMap::<String, u32>::new();
    (0..8_000).for_each(|_| *times.entry(guest.ask(&["RANDOMKEY"])).or_default() += 1);
    let (least, most) = (times.values().min(), times.values().max());
    // The expected count is 200; 100 more or fewer are seven standard deviations.
    assert!(times.len() == 40 && least > Some(&100) && most < Some(&300), "{times:?}");
}

#[test]
fn a_draw_walks_the_rows_that_it_draws_from_once() {
    let server = TestServer::build();
    let mut guest = Guest::new(server.address);
    let walked = |guest: &mut Guest| {
        let before = server.sample("credenza_store_rows_walked_total");
        guest.ask(&["RANDOMKEY"]);
        (server.sample("credenza_store_rows_walked_total") - before) as u64
    };
    for (keys, bound) in [(200, 210), (5_000, 1_010)] {
        for key in 0..keys {
            guest.say(&["SET", &format!("user:{keys}:{key:04}"), "1"]);
        }
        (0..keys).for_each(|_| drop(guest.answer()));
        let draws: Vec<_> = (0..20).map(|_| walked(&mut guest)).collect();
        // Other work of the node may read some rows at the same time.
        let exceeded = draws.iter().filter(|rows| **rows > bound).count();
        assert!(exceeded <= 2, "{keys} keys: {draws:?}");
        println!("RANDOMKEY of {keys} keys walks {draws:?} rows");
    }
}

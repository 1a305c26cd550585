//! Tests of `RANDOMKEY`: it can return every key, and reads few rows for it.

use super::test_client::{TestClient, TestServer};
use std::collections::{BTreeMap, BTreeSet};

/// Returns all keys that came in this many draws.
fn draw_keys(client: &mut TestClient, draws: usize) -> BTreeSet<String> {
    (0..draws).map(|_| client.call(&["RANDOMKEY"])).collect()
}

#[test]
fn randomkey_reaches_every_key_of_a_small_or_dense_keyspace() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    assert_eq!(draw_keys(&mut client, 1), BTreeSet::from(["$-1|".into()]));
    client.call(&["SET", "bar", "1"]);
    assert_eq!(draw_keys(&mut client, 9), BTreeSet::from(["$3|bar|".into()]));
    client.call(&["SET", "foo", "2"]);
    assert_eq!(draw_keys(&mut client, 200).len(), 2);
    client.call(&["DEL", "bar", "foo"]);
    for user in 0..200 {
        client.call(&["SET", &format!("user:{user}"), "3"]);
    }
    assert_eq!(draw_keys(&mut client, 4_000).len(), 200);
}

#[test]
fn randomkey_is_uniform_over_few_keys() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    // Gaps of all sizes don't matter when all keys are drawn from.
    let keys: Vec<_> = (0..40).map(|key: u32| format!("k{:08}", key.pow(5))).collect();
    for key in &keys {
        client.call(&["SET", key, "1"]);
    }
    let mut times = BTreeMap::<String, u32>::new();
    (0..8_000).for_each(|_| *times.entry(client.call(&["RANDOMKEY"])).or_default() += 1);
    let (least, most) = (times.values().min(), times.values().max());
    // The expected count is 200; 100 more or fewer are seven standard deviations.
    assert!(times.len() == 40 && least > Some(&100) && most < Some(&300), "{times:?}");
}

#[test]
fn randomkey_reads_a_bounded_number_of_rows() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    let rows_read = |client: &mut TestClient| {
        let before = server.sample("credenza_store_rows_walked_total");
        client.call(&["RANDOMKEY"]);
        (server.sample("credenza_store_rows_walked_total") - before) as u64
    };
    for (keys, bound) in [(200, 210), (5_000, 1_010)] {
        for key in 0..keys {
            client.send_command(&["SET", &format!("user:{keys}:{key:04}"), "1"]);
        }
        (0..keys).for_each(|_| drop(client.answer()));
        let draws: Vec<_> = (0..20).map(|_| rows_read(&mut client)).collect();
        // The counter is the node's: on a slow machine most draws hold work of its own, too.
        let bounded = draws.iter().filter(|rows| **rows <= bound).count();
        assert!(bounded >= 5, "{keys} keys: {draws:?}");
        println!("RANDOMKEY of {keys} keys walks {draws:?} rows");
    }
}

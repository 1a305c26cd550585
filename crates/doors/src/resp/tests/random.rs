//! `RANDOMKEY` gives every key there is.

use super::house::{Guest, House};
use std::collections::BTreeSet;

/// All that came in so many draws.
fn drawn(guest: &mut Guest, draws: usize) -> BTreeSet<String> {
    (0..draws).map(|_| guest.ask(&["RANDOMKEY"])).collect()
}

#[test]
fn every_key_comes_where_they_are_few_and_where_they_lie_close_together() {
    let house = House::build();
    let mut guest = Guest::new(house.address);
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

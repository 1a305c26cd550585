//! Several keys of an available bucket in one command.

use super::frames::request;
use super::house::{Guest, House, shown};

fn guest(house: &House) -> Guest {
    let mut guest = Guest::new(house.address);
    assert_eq!(guest.ask(&["CREDENZA.BUCKET", "available/b"]), "+OK|");
    guest
}

/// Asks about so many keys, whose names these make.
fn ask(guest: &mut Guest, command: &str, keys: impl Iterator<Item = usize>) -> String {
    let keys: Vec<String> = keys.map(|key| format!("k{key}")).collect();
    let words: Vec<&[u8]> = std::iter::once(command)
        .chain(keys.iter().map(|key| &key[..]))
        .map(str::as_bytes)
        .collect();
    guest.send(&request(&words));
    shown(&guest.answer().expect("an answer"))
}

#[test]
fn each_is_answered_in_its_place_whether_it_is_there_or_not() {
    let house = House::build();
    let mut guest = guest(&house);
    for key in (0..300).step_by(3) {
        assert_eq!(guest.ask(&["SET", &format!("k{key}"), &format!("v{key}")]), "+OK|");
    }
    let value = |key: usize| match key % 3 {
        0 if key < 300 => format!("${}|v{key}|", format!("v{key}").len()),
        _ => "$-1|".into(),
    };
    // More than go beside each other, some twice, and more than one request may ask for.
    for keys in [vec![3, 1, 3, 0], (0..300).rev().collect(), (0..2_500).collect()] {
        let wanted: String = keys.iter().copied().map(value).collect();
        let found = ask(&mut guest, "MGET", keys.iter().copied());
        assert_eq!(found, format!("*{}|{wanted}", keys.len()));
    }
    assert_eq!(ask(&mut guest, "EXISTS", (0..300).chain(0..300)), ":200|");
    assert_eq!(ask(&mut guest, "TOUCH", (0..100).rev()), ":34|");
    assert_eq!(ask(&mut guest, "EXISTS", 301..310), ":0|");
    // Nothing is changed together there, so a loop of changes is the client's to make.
    assert!(ask(&mut guest, "DEL", 0..2).starts_with("-ERR in an available bucket"));
    assert_eq!(ask(&mut guest, "EXISTS", std::iter::once(0)), ":1|");
}

#[test]
fn all_values_together_have_a_limit() {
    let house = House::build();
    let mut guest = guest(&house);
    let megabyte = "m".repeat(1 << 20);
    assert_eq!(guest.ask(&["SET", "k0", &megabyte]), "+OK|");
    let most = base::limits::VALUES_BYTES_MAX >> 20;
    let found = ask(&mut guest, "MGET", std::iter::repeat_n(0, most));
    assert_eq!(found.len(), format!("*{most}|").len() + most * (10 + (1 << 20)));
    let refused = ask(&mut guest, "MGET", std::iter::repeat_n(0, most + 1));
    assert!(refused.starts_with("-ERR"), "{}", &refused[..80.min(refused.len())]);
}

//! Hash floods: clients choose the keys of rows, so tables in memory find them by hashes whose key
//! no client knows.

use std::collections::BTreeSet;
use std::process::Command;

use quick_cache::DefaultHashBuilder;

use super::super::hash;
use super::{Scratch, open};

/// Low bits that the hashes of a corpus share: a table of up to so many places puts all its keys
/// into one.
const SHARED_BITS: u32 = 14;
const CORPUS_KEYS: usize = 256;
/// Asks a process of this test for the keys of its hashes.
const SHOW: &str = "CREDENZA_SHOW_HASH_KEYS";

fn place(key: &[u8], salt: u64) -> u32 {
    hash(key, salt) & ((1 << SHARED_BITS) - 1)
}

/// Returns keys that all have one place under a salt.
fn corpus(salt: u64) -> Vec<Vec<u8>> {
    let keys = (0_u64..).map(|number| format!("carts:{number}").into_bytes());
    keys.filter(|key| place(key, salt) == 0).take(CORPUS_KEYS).collect()
}

#[test]
fn keys_that_collide_under_one_salt_are_spread_under_another() {
    for (known, unknown) in [(0, 1), (0, u64::MAX), (0x9e37_79b9_7f4a_7c15, 0)] {
        let keys = corpus(known);
        let places = |salt| keys.iter().map(|key| place(key, salt)).collect::<BTreeSet<_>>().len();
        assert_eq!(places(known), 1, "they were found by trying");
        // Of 256 keys spread evenly over 16,384 places, two share one with another.
        assert!(places(unknown) > CORPUS_KEYS * 9 / 10, "{} places", places(unknown));
    }
}

/// Returns the salt of new trees, and the hash of a key in a new row cache.
fn keys_of_hashes() -> (u64, u64) {
    let scratch = Scratch::new();
    let salt = open(&scratch).salt;
    (salt, DefaultHashBuilder::default().hash_one(b"carts:1"))
}

/// Returns what another process of this test has as the keys of its hashes.
fn keys_of_another_process() -> (u64, u64) {
    let name = "trees::tests::hash_floods::each_process_has_keys_of_its_own";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--nocapture"]).env(SHOW, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.split_once("keys=").and_then(|(_, rest)| rest.lines().next());
    let found = found.and_then(|line| line.split_once(' ')).unwrap_or_else(|| panic!("{text}"));
    (found.0.parse().unwrap(), found.1.parse().unwrap())
}

#[test]
fn each_process_has_keys_of_its_own() {
    let (salt, cached) = keys_of_hashes();
    if std::env::var_os(SHOW).is_some() {
        return println!("keys={salt} {cached}");
    }
    for _ in 0..2 {
        let (other_salt, other_cached) = keys_of_another_process();
        assert_ne!(salt, other_salt, "tables in memory");
        assert_ne!(cached, other_cached, "row cache");
    }
}

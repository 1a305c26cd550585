//! Determinism across processes (F-54): one seed produces the same history in two processes,
//! whatever the addresses, hash seeds and thread order.

use super::seeds::run_history;
use std::process::Command;

/// Environment variable with the seed, for the child process that only prints a digest.
const ASKED: &str = "CREDENZA_DIGEST_OF";

#[test]
fn a_seed_is_a_history_in_every_process() {
    if let Ok(seed) = std::env::var(ASKED) {
        let seed = seed.parse().expect("a number");
        println!("digest {:x}", run_history(seed).0);
        return;
    }
    for seed in [5, 17, 2_024] {
        let tell = || {
            let name = "consensus::tests::cluster::processes::a_seed_is_a_history_in_every_process";
            let binary = std::env::current_exe().expect("this test is a file");
            let told = Command::new(binary)
                .args([name, "--exact", "--nocapture"])
                .env(ASKED, seed.to_string())
                .output()
                .expect("this very test starts");
            let told = String::from_utf8(told.stdout).expect("text");
            let digest = told.split("digest ").nth(1).expect("it tells a digest");
            digest.split_whitespace().next().expect("in hexadecimal").to_owned()
        };
        let first = tell();
        assert_eq!(first, tell(), "seed {seed}");
        assert_eq!(first, format!("{:x}", run_history(seed).0), "seed {seed}");
    }
}

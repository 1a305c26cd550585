//! Determinism across processes (F-54): one seed produces the same history in two processes,
//! whatever the addresses, hash seeds and thread order.

use super::seeds::run_history;
use std::process::Command;

/// Environment variable with the seed, for the child process that only prints a digest.
const SEED_VARIABLE: &str = "CREDENZA_DIGEST_OF";

#[test]
fn history_digest_is_equal_across_processes() {
    if let Ok(seed) = std::env::var(SEED_VARIABLE) {
        let seed = seed.parse().expect("a number");
        println!("digest {:x}", run_history(seed).0);
        return;
    }
    for seed in [5, 17, 2_024] {
        let child_digest = || {
            let name =
                "consensus::tests::cluster::processes::history_digest_is_equal_across_processes";
            let binary = std::env::current_exe().expect("this test is a file");
            let output = Command::new(binary)
                .args([name, "--exact", "--nocapture"])
                .env(SEED_VARIABLE, seed.to_string())
                .output()
                .expect("this very test starts");
            let output = String::from_utf8(output.stdout).expect("text");
            let digest = output.split("digest ").nth(1).expect("it tells a digest");
            digest.split_whitespace().next().expect("in hexadecimal").to_owned()
        };
        let first = child_digest();
        assert_eq!(first, child_digest(), "seed {seed}");
        assert_eq!(first, format!("{:x}", run_history(seed).0), "seed {seed}");
    }
}

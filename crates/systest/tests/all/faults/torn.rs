//! F-22, F-24: damage. A torn tail is cut silently; a hole never is.

use super::{add_counts, judge, small_setup};
use systest::environment::{Scratch, experiment, path_str, run_ok};
use systest::fault_injection::file_damage::{Damage, damage_file, list_files, log_tail};
use systest::report::Figures;
use systest::server::{Server, Setup};
use systest::workload::ledger::Ledger;

/// Under its old id it would acknowledge and promise as a node that has promised nothing.
#[test]
fn node_with_missing_log_refuses_to_start() {
    let scratch = Scratch::new("gone");
    let setup = small_setup(&scratch.join("data"));
    let mut server = Server::must_start(&setup);
    let ledger = super::load_for_a_while(&server, 0).stop();
    server.kill();
    for folders in [&["log"][..], &["store"]] {
        for folder in folders {
            std::fs::remove_dir_all(setup.data.join(folder)).expect("it is ours");
        }
        let refusal = Server::start(&setup).expect_err("acknowledged writes are gone");
        assert_eq!(refusal.code, Some(7), "{refusal}");
        assert!(refusal.output.contains("its log is missing"), "{refusal}");
    }
    assert!(ledger.ok > 20, "clients wrote almost nothing: {ledger:?}");
}

#[test]
fn hole_in_log_is_reported_with_its_file_and_never_truncated() {
    let _permit = experiment();
    let scratch = Scratch::new("f24");
    let setup = Setup::new(&scratch.join("data"));
    let mut figures = Figures::start("F-24 hole in the log");
    // So much data that no hole is in the head of a new segment, which is not read, or in the
    // newest part, which a torn write may have damaged. The log must be idle: a busy one may start
    // a segment after the measurement.
    let mut ledger = Ledger::default();
    let is_full = (0..20).any(|round| {
        let mut server = Server::must_start(&setup);
        let load = super::load_for_a_while(&server, round);
        std::thread::sleep(std::time::Duration::from_millis(500));
        ledger.join(load.stop());
        server.kill();
        log_tail(&scratch.join("data/log")).1 >= 2 << 20
    });
    assert!(is_full, "clients write next to nothing");
    add_counts(&mut figures, &ledger);
    let (segment, end) = log_tail(&scratch.join("data/log"));
    let original = std::fs::read(&segment).expect("ours to read");
    let mut reported = 0;
    for share in [80, 50, 20] {
        damage_file(&segment, end * share / 100, Damage::Flip);
        figures.faults += 1;
        match Server::start(&setup) {
            Ok(mut server) => {
                // Entries that the store has made durable are not read any more: their damage loses
                // nothing, and a log truncated here would lose all later ones.
                let verdict = ledger.judge(server.address).expect("readable");
                assert_eq!(verdict.lost.first(), None, "a hole at {share} % is passed over");
                server.kill();
                break;
            }
            Err(refusal) => {
                assert_eq!(refusal.code, Some(7), "{refusal}");
                let name = segment.file_name().expect("a file has a name").to_string_lossy();
                assert!(refusal.output.contains(&*name), "the file is not named: {refusal}");
                refusal.must_not_panic();
                reported += 1;
            }
        }
        std::fs::write(&segment, &original).expect("ours to write");
    }
    assert!(reported > 0, "no hole was read");
    let server = Server::must_start(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

#[test]
fn torn_log_tail_is_truncated_without_losing_acknowledged_writes() {
    let _permit = experiment();
    let scratch = Scratch::new("f24-torn");
    let setup = Setup::new(&scratch.join("data"));
    let mut figures = Figures::start("F-24 torn tail");
    let mut server = Server::must_start(&setup);
    let load = super::load_for_a_while(&server, 0);
    let ledger = load.stop();
    server.kill();
    add_counts(&mut figures, &ledger);
    let (segment, end) = log_tail(&scratch.join("data/log"));
    let original = std::fs::read(&segment).expect("ours to read");
    for (round, garbage) in [1_usize, 7, 64, 511, 4_096, 70_000].into_iter().enumerate() {
        let mut torn = original.clone();
        let from = end.next_multiple_of(8);
        let to = (from + garbage).min(torn.len());
        if round % 2 == 0 {
            torn[from..to].fill(0xA5);
        } else {
            // Bytes that look valid: the beginning of this segment's first frame.
            torn[from..to].copy_from_slice(&original[4_096..4_096 + to - from]);
        }
        std::fs::write(&segment, &torn).expect("ours to write");
        figures.faults += 1;
        let mut server = Server::start(&setup).unwrap_or_else(|refusal| {
            panic!("{garbage} bytes of a write that never ended keep it from starting: {refusal}")
        });
        judge(&mut figures, &ledger, &server);
        server.kill();
        std::fs::write(&segment, &original).expect("ours to write");
    }
    figures.print();
}

#[test]
fn damaged_table_is_detected_and_never_served() {
    let _permit = experiment();
    let scratch = Scratch::new("f22");
    let setup = small_setup(&scratch.join("data"));
    let mut figures = Figures::start("F-22 damage in the store");
    let mut server = Server::must_start(&setup);
    let ledger = systest::workload::Load::start_mix(server.address, 0, 4, 20_000);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let ledger = ledger.stop();
    add_counts(&mut figures, &ledger);
    server.stop(std::time::Duration::from_secs(60)).expect("it stops when asked");
    let tables = list_files(&scratch.join("data/store/tables"));
    assert!(!tables.is_empty(), "nothing was flushed");
    let (mut refused, mut answered, mut exited) = (0, 0, 0);
    for (at, table) in tables.iter().take(6).enumerate() {
        let copy = scratch.join("copy");
        let _ = std::fs::remove_dir_all(&copy);
        run_ok(&["cp", "-a", path_str(&scratch.join("data")), path_str(&copy)]);
        let name = table.file_name().expect("a file has a name");
        let victim = copy.join("store/tables").join(name);
        let length = victim.metadata().expect("it was copied").len() as usize;
        damage_file(&victim, length * [30, 50, 98][at % 3] / 100, Damage::Flip);
        figures.faults += 1;
        match Server::start(&small_setup(&copy)) {
            Err(refusal) => {
                assert!(refusal.code.is_some_and(|code| code == 7), "{refusal}");
                refused += 1;
            }
            Ok(mut server) => match ledger.judge(server.address) {
                Ok(verdict) => {
                    assert!(verdict.lost.is_empty(), "served as absent: {:?}", verdict.lost[0]);
                    let wrong_value = verdict
                        .unexpected
                        .iter()
                        .find(|wrong_value| !wrong_value.contains("not readable"));
                    assert!(wrong_value.is_none(), "damaged bytes were served: {wrong_value:?}");
                    answered += verdict.unexpected.len();
                }
                // A merge read the damage first: writes are no longer possible, so the node exits.
                Err(_) => {
                    let status = server.wait(std::time::Duration::from_secs(10)).expect("it ended");
                    let output = server.stderr_text();
                    assert!(status.code() == Some(7) && output.contains("damage"), "{output}");
                    exited += 1;
                }
            },
        }
        let args = ["verify", path_str(&copy)];
        let result = systest::server::tool(&args).output().expect("the tool runs");
        assert_eq!(result.status.code(), Some(7), "`credenza verify` finds nothing");
        let output = String::from_utf8_lossy(&result.stdout).into_owned()
            + &String::from_utf8_lossy(&result.stderr);
        assert!(output.contains(&*name.to_string_lossy()), "the file is not named: {output}");
    }
    figures.add("refused_to_start", refused);
    figures.add("ended_when_merging", exited);
    figures.add("reads_answered_damaged", answered);
    figures.print();
}

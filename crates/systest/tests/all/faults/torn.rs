//! F-22, F-24: damage. A torn tail is cut silently; a hole never is.

use super::{count, judge, small};
use systest::report::Figures;
use systest::rigs::rot::{Rot, files, spoil, tail};
use systest::rigs::{Scratch, experiment, must, text};
use systest::server::{Server, Setup};
use systest::workload::ledger::Ledger;

/// Under its old id it would acknowledge and promise as if it had never existed.
#[test]
fn a_node_whose_log_is_gone_does_not_begin_anew() {
    let scratch = Scratch::new("gone");
    let setup = small(&scratch.join("data"));
    let mut server = Server::must(&setup);
    let ledger = super::load_for_a_while(&server, 0).stop();
    server.kill();
    for folders in [&["log"][..], &["store"]] {
        for folder in folders {
            std::fs::remove_dir_all(setup.data.join(folder)).expect("it is ours");
        }
        let refusal = Server::start(&setup).expect_err("acknowledged writes are gone");
        assert_eq!(refusal.code, Some(7), "{refusal}");
        assert!(refusal.words.contains("its log is gone"), "{refusal}");
    }
    assert!(ledger.ok > 20, "clients wrote almost nothing: {ledger:?}");
}

#[test]
fn a_hole_in_the_log_is_named_and_never_cut_silently() {
    let _permit = experiment();
    let scratch = Scratch::new("f24");
    let setup = Setup::on(&scratch.join("data"));
    let mut figures = Figures::begin("F-24 hole in the log");
    // So much that no hole lies in the head of a segment that has just begun, where nothing is
    // read, or in the newest part, which a torn write may have damaged. The log must be idle: a
    // busy one may begin a segment between the measurement and its end.
    let mut ledger = Ledger::default();
    let is_full = (0..20).any(|round| {
        let mut server = Server::must(&setup);
        let load = super::load_for_a_while(&server, round);
        std::thread::sleep(std::time::Duration::from_millis(500));
        ledger.join(load.stop());
        server.kill();
        tail(&scratch.join("data/log")).1 >= 2 << 20
    });
    assert!(is_full, "clients write next to nothing");
    count(&mut figures, &ledger);
    let (segment, end) = tail(&scratch.join("data/log"));
    let kept = std::fs::read(&segment).expect("ours to read");
    let mut named = 0;
    for share in [80, 50, 20] {
        spoil(&segment, end * share / 100, Rot::Flip);
        figures.faults += 1;
        match Server::start(&setup) {
            Ok(mut server) => {
                // Entries that the store has made durable are not read any more: nothing is lost by
                // them, and a log that is cut here would have lost all later ones.
                let verdict = ledger.judge(server.address).expect("readable");
                assert_eq!(verdict.lost.first(), None, "a hole at {share} % is passed over");
                server.kill();
                break;
            }
            Err(refusal) => {
                assert_eq!(refusal.code, Some(7), "{refusal}");
                let name = segment.file_name().expect("a file has a name").to_string_lossy();
                assert!(refusal.words.contains(&*name), "the file is not named: {refusal}");
                refusal.must_not_panic();
                named += 1;
            }
        }
        std::fs::write(&segment, &kept).expect("ours to write");
    }
    assert!(named > 0, "no hole was read");
    let server = Server::must(&setup);
    judge(&mut figures, &ledger, &server);
    figures.print();
}

#[test]
fn a_torn_tail_is_cut_and_nothing_acknowledged_with_it() {
    let _permit = experiment();
    let scratch = Scratch::new("f24-torn");
    let setup = Setup::on(&scratch.join("data"));
    let mut figures = Figures::begin("F-24 torn tail");
    let mut server = Server::must(&setup);
    let load = super::load_for_a_while(&server, 0);
    let ledger = load.stop();
    server.kill();
    count(&mut figures, &ledger);
    let (segment, end) = tail(&scratch.join("data/log"));
    let kept = std::fs::read(&segment).expect("ours to read");
    for (turn, garbage) in [1_usize, 7, 64, 511, 4_096, 70_000].into_iter().enumerate() {
        let mut torn = kept.clone();
        let from = end.next_multiple_of(8);
        let to = (from + garbage).min(torn.len());
        if turn % 2 == 0 {
            torn[from..to].fill(0xA5);
        } else {
            // Bytes that look valid: the beginning of this segment's first frame.
            torn[from..to].copy_from_slice(&kept[4_096..4_096 + to - from]);
        }
        std::fs::write(&segment, &torn).expect("ours to write");
        figures.faults += 1;
        let mut server = Server::start(&setup).unwrap_or_else(|refusal| {
            panic!("{garbage} bytes of a write that never ended keep it from starting: {refusal}")
        });
        judge(&mut figures, &ledger, &server);
        server.kill();
        std::fs::write(&segment, &kept).expect("ours to write");
    }
    figures.print();
}

#[test]
fn damage_in_the_store_is_found_and_never_served() {
    let _permit = experiment();
    let scratch = Scratch::new("f22");
    let setup = small(&scratch.join("data"));
    let mut figures = Figures::begin("F-22 damage in the store");
    let mut server = Server::must(&setup);
    let ledger = systest::workload::Load::mix(server.address, 0, 4, 20_000);
    std::thread::sleep(std::time::Duration::from_secs(3));
    let ledger = ledger.stop();
    count(&mut figures, &ledger);
    server.stop(std::time::Duration::from_secs(60)).expect("it stops when asked");
    let tables = files(&scratch.join("data/store/tables"));
    assert!(!tables.is_empty(), "nothing was flushed");
    let (mut refused, mut answered, mut ended) = (0, 0, 0);
    for (at, table) in tables.iter().take(6).enumerate() {
        let copy = scratch.join("copy");
        let _ = std::fs::remove_dir_all(&copy);
        must(&["cp", "-a", text(&scratch.join("data")), text(&copy)]);
        let name = table.file_name().expect("a file has a name");
        let victim = copy.join("store/tables").join(name);
        let length = victim.metadata().expect("it was copied").len() as usize;
        spoil(&victim, length * [30, 50, 98][at % 3] / 100, Rot::Flip);
        figures.faults += 1;
        match Server::start(&small(&copy)) {
            Err(refusal) => {
                assert!(refusal.code.is_some_and(|code| code == 7), "{refusal}");
                refused += 1;
            }
            Ok(mut server) => match ledger.judge(server.address) {
                Ok(verdict) => {
                    assert!(verdict.lost.is_empty(), "served as absent: {:?}", verdict.lost[0]);
                    let odd = verdict.strange.iter().find(|odd| !odd.contains("not readable"));
                    assert!(odd.is_none(), "damaged bytes were served: {odd:?}");
                    answered += verdict.strange.len();
                }
                // A merge found the damage first: nothing can be written any more, so the node
                // ends.
                Err(_) => {
                    let status = server.wait(std::time::Duration::from_secs(10)).expect("it ended");
                    let said = server.said();
                    assert!(status.code() == Some(7) && said.contains("damage"), "{said}");
                    ended += 1;
                }
            },
        }
        let words = ["verify", text(&copy)];
        let checked = systest::server::tool(&words).output().expect("the tool runs");
        assert_eq!(checked.status.code(), Some(7), "`credenza verify` finds nothing");
        let said = String::from_utf8_lossy(&checked.stdout).into_owned()
            + &String::from_utf8_lossy(&checked.stderr);
        assert!(said.contains(&*name.to_string_lossy()), "the file is not named: {said}");
    }
    figures.also("refused_to_start", refused);
    figures.also("ended_when_merging", ended);
    figures.also("reads_answered_damaged", answered);
    figures.print();
}

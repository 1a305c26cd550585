//! F-20: power loss on ext4 and XFS: every acknowledged write was synced.

use super::{count, judge, load_for_a_while, small};
use std::time::Duration;
use systest::report::{Figures, skipped, times};
use systest::rigs::{Mount, Root, Scratch, System, experiment, missing};
use systest::server::{Server, Setup};
use systest::workload::ledger::Ledger;

/// Time limit for a node whose disk fails to end by itself.
const END_MAX: Duration = Duration::from_secs(10);

/// Cuts the power once under load; returns the clients' answers. The mount has power again
/// afterwards.
fn cut(mount: &mut Mount, setup: &Setup, round: usize, figures: &mut Figures) -> Ledger {
    let mut server = Server::must(setup);
    let load = load_for_a_while(&server, round);
    load.doubt();
    mount.cut();
    figures.faults += 1;
    let ended = server.wait(END_MAX);
    let ledger = load.stop();
    if setup.wrapper.is_empty() {
        let status = ended.unwrap_or_else(|| panic!("it lives on a dead disk: {}", server.said()));
        assert_eq!(status.code(), Some(7), "{}", server.said());
    }
    drop(server);
    mount.power_again();
    ledger
}

fn power_loss(system: System) {
    let name = format!("F-20 power loss {}", system.word());
    let tools = [system.tools(), &["eatmydata"]].concat();
    if let Some(why) = missing(Root::Needed, &tools) {
        return skipped(&name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new(&format!("f20-{}", system.word()));
    let mut mount = Mount::new(scratch.path(), system, 1024);
    let setup = small(&mount.point().join("data"));
    let mut figures = Figures::begin(&name);
    let mut told = Ledger::default();
    let mut slowest = 0;
    for round in 0..times(3, 20) {
        let ledger = cut(&mut mount, &setup, round, &mut figures);
        assert!(ledger.ok > 20, "round {round}: clients wrote almost nothing: {ledger:?}");
        count(&mut figures, &ledger);
        told.join(ledger);
        let server = Server::start(&setup).unwrap_or_else(|refusal| {
            panic!("{} keys are lost (the node does not open): {refusal}", told.keys())
        });
        slowest = slowest.max(server.ready_after.as_millis());
        judge(&mut figures, &told, &server);
    }
    figures.also("slowest_start_ms", slowest);
    control(&mut mount, &mut figures);
    figures.print();
}

/// Positive control with syncs that return 0 and do nothing: the checker must report losses, or the
/// data must not open.
fn control(mount: &mut Mount, figures: &mut Figures) {
    let setup = small(&mount.point().join("lied")).under(&["eatmydata"]);
    let mut unread = Figures::begin("control");
    let ledger = cut(mount, &setup, 50, &mut unread);
    let honest = small(&mount.point().join("lied"));
    figures.also("control_acked", ledger.ok);
    let lost = match Server::start(&honest) {
        Ok(server) => {
            let verdict = ledger.judge(server.address).expect("every key can be read");
            verdict.lost.len() + verdict.strange.len()
        }
        Err(_) => ledger.keys(),
    };
    figures.also("control_lost", lost);
    assert!(ledger.ok > 20, "the control wrote almost nothing");
    assert!(lost > 0, "nothing was lost although no sync was done: the experiment proves nothing");
}

#[test]
fn power_loss_on_ext4_loses_nothing_acknowledged() {
    power_loss(System::Ext4);
}

#[test]
fn power_loss_on_xfs_loses_nothing_acknowledged() {
    power_loss(System::Xfs);
}

//! F-20: power loss on ext4 and XFS: every acknowledged write was synced.

use super::{add_counts, judge, load_for_a_while, small_setup};
use std::time::Duration;
use systest::environment::{Root, Scratch, experiment, missing};
use systest::fault_injection::{FileSystem, Mount};
use systest::report::{Figures, short_or_long, skipped};
use systest::server::{Server, Setup};
use systest::workload::ledger::Ledger;

/// Time limit for a node to exit after its disk failed.
const END_MAX: Duration = Duration::from_secs(10);

/// Cuts the power once under load and restores it; returns the clients' ledger.
fn cut_power_under_load(
    mount: &mut Mount,
    setup: &Setup,
    round: usize,
    figures: &mut Figures,
) -> Ledger {
    let mut server = Server::must_start(setup);
    let load = load_for_a_while(&server, round);
    load.distrust_acknowledgements();
    mount.cut_power();
    figures.faults += 1;
    let exit_status = server.wait(END_MAX);
    let ledger = load.stop();
    if setup.wrapper.is_empty() {
        let status = exit_status
            .unwrap_or_else(|| panic!("it lives on a dead disk: {}", server.stderr_text()));
        assert_eq!(status.code(), Some(7), "{}", server.stderr_text());
    }
    drop(server);
    mount.restore_power();
    ledger
}

fn run_power_loss(system: FileSystem) {
    let name = format!("F-20 power loss {}", system.mount_type());
    let tools = [system.tools(), &["eatmydata"]].concat();
    if let Some(reason) = missing(Root::Needed, &tools) {
        return skipped(&name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new(&format!("f20-{}", system.mount_type()));
    let mut mount = Mount::new(scratch.path(), system, 1024);
    let setup = small_setup(&mount.point().join("data"));
    let mut figures = Figures::start(&name);
    let mut total = Ledger::default();
    let mut longest_start_ms = 0;
    for round in 0..short_or_long(3, 20) {
        let ledger = cut_power_under_load(&mut mount, &setup, round, &mut figures);
        assert!(ledger.ok > 20, "round {round}: clients wrote almost nothing: {ledger:?}");
        add_counts(&mut figures, &ledger);
        total.join(ledger);
        let server = Server::start(&setup).unwrap_or_else(|refusal| {
            panic!("{} keys are lost (the node does not open): {refusal}", total.keys())
        });
        longest_start_ms = longest_start_ms.max(server.ready_after.as_millis());
        judge(&mut figures, &total, &server);
    }
    figures.add("slowest_start_ms", longest_start_ms);
    check_control(&mut mount, &mut figures);
    figures.print();
}

/// Positive control with syncs that return 0 and do nothing: the checker must report losses, or the
/// data must not open.
fn check_control(mount: &mut Mount, figures: &mut Figures) {
    let setup = small_setup(&mount.point().join("lied")).with_wrapper(&["eatmydata"]);
    let mut control_figures = Figures::start("control");
    let ledger = cut_power_under_load(mount, &setup, 50, &mut control_figures);
    let synced_setup = small_setup(&mount.point().join("lied"));
    figures.add("control_acked", ledger.ok);
    let lost = match Server::start(&synced_setup) {
        Ok(server) => {
            let verdict = ledger.judge(server.address).expect("every key can be read");
            verdict.lost.len() + verdict.unexpected.len()
        }
        Err(_) => ledger.keys(),
    };
    figures.add("control_lost", lost);
    assert!(ledger.ok > 20, "the control wrote almost nothing");
    assert!(lost > 0, "nothing was lost although no sync was done: the experiment proves nothing");
}

#[test]
fn power_loss_on_ext4_loses_nothing_acknowledged() {
    run_power_loss(FileSystem::Ext4);
}

#[test]
fn power_loss_on_xfs_loses_nothing_acknowledged() {
    run_power_loss(FileSystem::Xfs);
}

//! Tests of the rigs and the ledger's checker, before they test the product.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use systest::report::{Figures, skipped};
use systest::rigs::{Mount, Root, Scratch, System, Trace, compiled, experiment, missing, text};
use systest::workload::ledger::{ClientProtocol, Ledger, Writing, state};

/// Runs the trivial writer until its file system loses power; returns the records acknowledged
/// before that, and the records found. A sync in progress at that moment may return 0 and prove
/// nothing, see [`systest::workload::Load::doubt`].
fn cut_under_a_writer(mount: &mut Mount, wrapper: &[&str]) -> (u64, u64) {
    let file = mount.point().join("log");
    let writer = compiled("ack");
    let words = [wrapper, &[text(&writer), text(&file)]].concat();
    let mut child = Command::new(words[0])
        .args(&words[1..])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the writer starts");
    let pipe = child.stdout.take().expect("stdout is piped");
    let acked = Arc::new(AtomicU64::new(0));
    let counter = acked.clone();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            counter.store(line.parse().unwrap_or(0), Ordering::SeqCst);
        }
    });
    std::thread::sleep(Duration::from_millis(400));
    let acked = acked.load(Ordering::SeqCst);
    mount.cut();
    let _ = child.wait();
    reader.join().expect("the reader does not panic");
    mount.power_again();
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let kept = kept.lines().filter(|line| line.starts_with("record ")).count() as u64;
    let _ = std::fs::remove_file(&file);
    (acked, kept)
}

fn power_loss_is_real(system: System) {
    let name = format!("rig power loss {}", system.word());
    let tools = [system.tools(), &["eatmydata"]].concat();
    if let Some(why) = missing(Root::Needed, &tools) {
        return skipped(&name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new(&name.replace(' ', "-"));
    let mut mount = Mount::new(scratch.path(), system, 320);
    let mut figures = Figures::begin(&name);
    for _ in 0..2 {
        let (acked, kept) = cut_under_a_writer(&mut mount, &[]);
        figures.ok += acked;
        figures.faults += 1;
        figures.lost += acked.saturating_sub(kept);
    }
    let (acked, kept) = cut_under_a_writer(&mut mount, &["eatmydata"]);
    figures.also("control_acked", acked);
    figures.also("control_lost", acked.saturating_sub(kept));
    figures.print();
    assert!(figures.ok > 10, "the writer wrote almost nothing");
    assert_eq!(figures.lost, 0, "a synced record was lost: the rig cuts too much");
    assert!(acked > kept, "nothing was lost without syncs: the rig cuts nothing");
}

#[test]
fn power_loss_on_ext4_takes_what_was_not_synced_and_nothing_else() {
    power_loss_is_real(System::Ext4);
}

#[test]
fn power_loss_on_xfs_takes_what_was_not_synced_and_nothing_else() {
    power_loss_is_real(System::Xfs);
}

#[test]
fn a_failing_call_is_seen_by_the_process_and_in_the_record() {
    let name = "rig failing sync";
    if let Some(why) = missing(Root::Needed, &["strace", "cc"]) {
        return skipped(name, &why);
    }
    let scratch = Scratch::new("rig-trace");
    let mut child = Command::new(compiled("ack"))
        .arg(scratch.join("log"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the writer starts");
    let record = scratch.join("record");
    let mut trace = Trace::attach(child.id(), "fdatasync", "error=EIO:when=3", record);
    assert!(trace.wait(Duration::from_secs(10)), "the writer went on after a failed sync");
    assert_eq!(child.wait().expect("it ended").code(), Some(1));
    assert_eq!(trace.injections(), 1);
    assert!(trace.seconds_to_exit().is_some(), "{}", trace.record());
}

#[test]
fn short_writes_are_short_and_leave_the_caller_what_it_needs_to_go_on() {
    let name = "rig short writes";
    if !cfg!(target_arch = "x86_64") {
        return skipped(name, "reads registers of x86-64");
    }
    if let Some(why) = missing(Root::Needed, &["cc"]) {
        return skipped(name, &why);
    }
    let scratch = Scratch::new("rig-short");
    let (rig, writer) = (compiled("shortwrite"), compiled("whole"));
    let file = scratch.join("file");
    let prefix = text(scratch.path());
    let output = systest::rigs::run(&[text(&rig), "3", prefix, text(&writer), text(&file)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let cut = said.trim().strip_prefix("shortwrite: cut ").and_then(|count| count.parse().ok());
    assert!(cut.is_some_and(|cut: u64| cut >= 100), "{said}");
    let written = std::fs::read(&file).expect("it was written");
    let expected = (0..300_000_usize).map(|at| (at / 1_000 + at % 1_000 * 7) as u8);
    assert!(written.into_iter().eq(expected), "bytes are missing or mixed up");
}

#[test]
fn a_full_disk_and_a_read_only_one_are_what_they_say() {
    let name = "rig full disk";
    if let Some(why) = missing(Root::Needed, System::Ext4.tools()) {
        return skipped(name, &why);
    }
    let scratch = Scratch::new("rig-full");
    let mount = Mount::new(scratch.path(), System::Ext4, 64);
    let kind = |result: std::io::Result<()>| result.map_err(|error| error.kind());
    let write = |name: &str| kind(std::fs::write(mount.point().join(name), vec![1; 256 * 1024]));
    assert_eq!(write("before"), Ok(()));
    let filler = mount.fill(0);
    assert_eq!(write("full"), Err(std::io::ErrorKind::StorageFull));
    std::fs::remove_file(filler).expect("the filler is ours");
    assert_eq!(write("after"), Ok(()));
    mount.find_an_error();
    assert_eq!(write("read-only"), Err(std::io::ErrorKind::ReadOnlyFilesystem));
    let memory = Mount::new(scratch.path(), System::Memory { files: 8 }, 16);
    let made = (0..20).filter(|n| std::fs::write(memory.point().join(n.to_string()), b"").is_ok());
    assert!(made.count() < 8, "files without end on a disk with 8");
}

/// Returns a ledger as if one client had written `calls` times on three keys, all acknowledged.
fn told() -> (Ledger, BTreeMap<String, Vec<u8>>) {
    let how = Writing { client: 1, keys: 3, depth: 1, bytes: 64, protocol: ClientProtocol::Resp };
    let mut ledger = Ledger::default();
    for call in 0..30 {
        ledger.pretend(how, call, systest::client::CallOutcome::Acknowledged(()));
    }
    let row = |n: usize| (format!("c001-{n:05}"), state(&format!("c001-{n:05}"), 10, 64));
    let rows = (0..3).map(row).map(|(key, value)| (key, value.expect("the tenth is no delete")));
    (ledger, rows.collect())
}

#[test]
fn the_judge_is_content_with_what_was_told() {
    let (mut ledger, mut table) = told();
    ledger.judge_table(&table).must_be_clean();
    let how = Writing { client: 1, keys: 3, depth: 1, bytes: 64, protocol: ClientProtocol::Resp };
    ledger.pretend(how, 0, systest::client::CallOutcome::Unknown);
    ledger.judge_table(&table).must_be_clean();
    table.remove("c001-00000"); // the eleventh write deletes: it may have happened
    ledger.judge_table(&table).must_be_clean();
}

#[test]
fn the_judge_sees_what_is_lost_torn_mixed_up_or_refused() {
    let (mut ledger, table) = told();
    let with = |key: &str, value: Option<Vec<u8>>| {
        let mut table = table.clone();
        table.remove(key);
        table.extend(value.map(|value| (key.to_string(), value)));
        table
    };
    let first = "c001-00000";
    let older = with(first, state(first, 9, 64));
    assert_eq!(ledger.judge_table(&older).lost.len(), 1);
    assert_eq!(ledger.judge_table(&with(first, None)).lost.len(), 1);
    assert_eq!(ledger.judge_table(&BTreeMap::new()).lost.len(), 3);
    let mut torn = table[first].clone();
    torn.pop();
    assert_eq!(ledger.judge_table(&with(first, Some(torn))).strange.len(), 1);
    let mixed = with(first, Some(table["c001-00001"].clone()));
    assert_eq!(ledger.judge_table(&mixed).strange.len(), 1);
    let how = Writing { client: 1, keys: 3, depth: 1, bytes: 64, protocol: ClientProtocol::Resp };
    for call in 0..6 {
        ledger.pretend(how, call, systest::client::CallOutcome::Refused);
    }
    let refused = with(first, state(first, 12, 64));
    assert_eq!(ledger.judge_table(&refused).strange.len(), 1);
}

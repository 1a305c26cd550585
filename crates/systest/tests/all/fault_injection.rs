//! Tests of the fault injectors and the ledger's checker, before they test the product.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use systest::cluster::wait_until;
use systest::environment::{Root, Scratch, compile_helper, experiment, missing, path_str, run};
use systest::fault_injection::{FileSystem, Mount, Trace};
use systest::report::{Figures, skipped};
use systest::workload::ledger::{ClientProtocol, Ledger, WriterPlan, value_after};

/// Runs the trivial writer until its file system loses power; returns the records acknowledged
/// before that, and the records found. A sync in progress at that moment may return 0 and prove
/// nothing, see [`systest::workload::Workload::distrust_acknowledgements`].
fn cut_power_under_writer(mount: &mut Mount, wrapper: &[&str]) -> (u64, u64) {
    let file = mount.point().join("log");
    let writer = compile_helper("ack");
    let args = [wrapper, &[path_str(&writer), path_str(&file)]].concat();
    let mut child = Command::new(args[0])
        .args(&args[1..])
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
    mount.cut_power();
    let _ = child.wait();
    reader.join().expect("the reader does not panic");
    mount.restore_power();
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let found = found.lines().filter(|line| line.starts_with("record ")).count() as u64;
    let _ = std::fs::remove_file(&file);
    (acked, found)
}

fn must_lose_only_unsynced_records(system: FileSystem) {
    let name = format!("injected power loss {}", system.mount_type());
    let tools = [system.tools(), &["eatmydata"]].concat();
    if let Some(reason) = missing(Root::Needed, &tools) {
        return skipped(&name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new(&name.replace(' ', "-"));
    let mut mount = Mount::new(scratch.path(), system, 320);
    let mut figures = Figures::start(&name);
    for _ in 0..2 {
        let (acked, found) = cut_power_under_writer(&mut mount, &[]);
        figures.ok += acked;
        figures.faults += 1;
        figures.lost += acked.saturating_sub(found);
    }
    let (acked, found) = cut_power_under_writer(&mut mount, &["eatmydata"]);
    figures.add("control_acked", acked);
    figures.add("control_lost", acked.saturating_sub(found));
    figures.print();
    assert!(figures.ok > 10, "the writer wrote almost nothing");
    assert_eq!(figures.lost, 0, "a synced record was lost: the injection cuts too much");
    assert!(acked > found, "nothing was lost without syncs: the injection cuts nothing");
}

#[test]
fn power_loss_injection_on_ext4_drops_only_unsynced_records() {
    must_lose_only_unsynced_records(FileSystem::Ext4);
}

#[test]
fn power_loss_injection_on_xfs_drops_only_unsynced_records() {
    must_lose_only_unsynced_records(FileSystem::Xfs);
}

#[test]
fn injected_sync_error_reaches_the_process_and_the_trace_record() {
    let name = "injected failing sync";
    if let Some(reason) = missing(Root::Needed, &["strace", "cc"]) {
        return skipped(name, &reason);
    }
    let scratch = Scratch::new("injected-trace");
    let mut child = Command::new(compile_helper("ack"))
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
fn short_write_injection_shortens_writes_without_corrupting_data() {
    let name = "injected short writes";
    if !cfg!(target_arch = "x86_64") {
        return skipped(name, "reads registers of x86-64");
    }
    if let Some(reason) = missing(Root::Needed, &["cc"]) {
        return skipped(name, &reason);
    }
    let scratch = Scratch::new("injected-short");
    let (injector, writer) = (compile_helper("shortwrite"), compile_helper("whole"));
    let file = scratch.join("file");
    let prefix = path_str(scratch.path());
    let output = run(&[path_str(&injector), "3", prefix, path_str(&writer), path_str(&file)]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let cut = stderr.trim().strip_prefix("shortwrite: cut ").and_then(|count| count.parse().ok());
    assert!(cut.is_some_and(|cut: u64| cut >= 100), "{stderr}");
    let written = std::fs::read(&file).expect("it was written");
    let expected = (0..300_000_usize).map(|at| (at / 1_000 + at % 1_000 * 7) as u8);
    assert!(written.into_iter().eq(expected), "bytes are missing or mixed up");
}

#[test]
fn full_disk_read_only_and_inode_injection_return_their_errors() {
    let name = "injected full disk";
    if let Some(reason) = missing(Root::Needed, FileSystem::Ext4.tools()) {
        return skipped(name, &reason);
    }
    let scratch = Scratch::new("injected-full");
    let mount = Mount::new(scratch.path(), FileSystem::Ext4, 64);
    let kind = |result: std::io::Result<()>| result.map_err(|error| error.kind());
    let write = |name: &str| kind(std::fs::write(mount.point().join(name), vec![1; 256 * 1024]));
    assert_eq!(write("before"), Ok(()));
    let filler = mount.fill(0);
    assert_eq!(write("full"), Err(std::io::ErrorKind::StorageFull));
    std::fs::remove_file(filler).expect("the filler is ours");
    // The journal's next commit frees the blocks.
    wait_until("a write after the filler is gone", || {
        write("after").map_err(|error| error.to_string())
    });
    mount.inject_error();
    assert_eq!(write("read-only"), Err(std::io::ErrorKind::ReadOnlyFilesystem));
    let memory = Mount::new(scratch.path(), FileSystem::Memory { files: 8 }, 16);
    let created =
        (0..20).filter(|n| std::fs::write(memory.point().join(n.to_string()), b"").is_ok());
    assert!(created.count() < 8, "files without end on a disk with 8");
}

/// Returns a ledger as if one client had written `calls` times on three keys, all acknowledged.
fn simulated_ledger() -> (Ledger, BTreeMap<String, Vec<u8>>) {
    let plan =
        WriterPlan { client: 1, keys: 3, depth: 1, bytes: 64, protocol: ClientProtocol::Resp };
    let mut ledger = Ledger::default();
    for call in 0..30 {
        ledger.record_simulated(plan, call, systest::client::CallOutcome::Acknowledged(()));
    }
    let row = |n: usize| (format!("c001-{n:05}"), value_after(&format!("c001-{n:05}"), 10, 64));
    let rows = (0..3).map(row).map(|(key, value)| (key, value.expect("the tenth is no delete")));
    (ledger, rows.collect())
}

#[test]
fn ledger_accepts_acknowledged_and_unknown_writes() {
    let (mut ledger, mut table) = simulated_ledger();
    ledger.judge_table(&table).must_be_clean();
    let plan =
        WriterPlan { client: 1, keys: 3, depth: 1, bytes: 64, protocol: ClientProtocol::Resp };
    ledger.record_simulated(plan, 0, systest::client::CallOutcome::Unknown);
    ledger.judge_table(&table).must_be_clean();
    table.remove("c001-00000"); // the eleventh write deletes: it may have happened
    ledger.judge_table(&table).must_be_clean();
}

#[test]
fn ledger_reports_lost_torn_misplaced_and_refused_writes() {
    let (mut ledger, table) = simulated_ledger();
    let with_row = |key: &str, value: Option<Vec<u8>>| {
        let mut table = table.clone();
        table.remove(key);
        table.extend(value.map(|value| (key.to_string(), value)));
        table
    };
    let first = "c001-00000";
    let older = with_row(first, value_after(first, 9, 64));
    assert_eq!(ledger.judge_table(&older).lost.len(), 1);
    assert_eq!(ledger.judge_table(&with_row(first, None)).lost.len(), 1);
    assert_eq!(ledger.judge_table(&BTreeMap::new()).lost.len(), 3);
    let mut torn = table[first].clone();
    torn.pop();
    assert_eq!(ledger.judge_table(&with_row(first, Some(torn))).unexpected.len(), 1);
    let mixed = with_row(first, Some(table["c001-00001"].clone()));
    assert_eq!(ledger.judge_table(&mixed).unexpected.len(), 1);
    let plan =
        WriterPlan { client: 1, keys: 3, depth: 1, bytes: 64, protocol: ClientProtocol::Resp };
    for call in 0..6 {
        ledger.record_simulated(plan, call, systest::client::CallOutcome::Refused);
    }
    let refused = with_row(first, value_after(first, 12, 64));
    assert_eq!(ledger.judge_table(&refused).unexpected.len(), 1);
}

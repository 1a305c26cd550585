//! Tests of the log's output.

use super::*;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl SharedBuffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }
}

/// Target that blocks while its gate is held.
#[derive(Clone, Default)]
struct GatedBuffer {
    gate: Arc<Mutex<()>>,
    buffer: SharedBuffer,
}

impl Write for GatedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _open = self.gate.lock().expect("no panic");
        self.buffer.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn log(levels: &str, ring: bool) -> (Logging, SharedBuffer) {
    let buffer = SharedBuffer::default();
    let levels = levels.parse().expect("levels");
    (Logging::new(&levels, ring, Box::new(buffer.clone())), buffer)
}

#[test]
fn event_is_written_on_a_single_line_with_section_and_fields() {
    let (logging, buffer) = log("info", false);
    tracing::subscriber::with_default(logging.clone(), || {
        tracing::info!(target: "node", bucket = "default/a b", rows = 3, "told\nall");
        tracing::debug!(target: "node", "not shown");
        tracing::info!(target: "h2", "foreign libraries only warn");
    });
    logging.flush();
    let text = buffer.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.ends_with("Z info  node told\\x0aall bucket=\"default/a b\" rows=3\n"), "{text}");
}

#[test]
fn log_lines_to_a_blocked_target_are_dropped_and_counted() {
    const BEYOND: usize = 100;
    let target = GatedBuffer::default();
    let levels = "info".parse().expect("levels");
    let logging = Logging::new(&levels, false, Box::new(target.clone()));
    let gate = target.gate.lock().expect("no panic");
    // The target accepts nothing meanwhile: a thread that waited for it would never return.
    tracing::subscriber::with_default(logging.clone(), || {
        for _ in 0..writer::LINES_MAX + BEYOND {
            tracing::info!(target: "node", "one of many");
        }
    });
    logging.flush();
    drop(gate);
    let until = Instant::now() + Duration::from_secs(30);
    let (mut written, mut dropped) = (0, 0);
    while written + dropped < writer::LINES_MAX + BEYOND && Instant::now() < until {
        logging.flush();
        let text = target.buffer.text();
        written = text.lines().filter(|line| line.ends_with("node one of many")).count();
        let counts = text.lines().filter_map(|line| {
            line.strip_suffix(" lines of the log were dropped: standard error was too slow")
        });
        dropped = counts.map(|count| count.parse::<usize>().expect("a number")).sum();
    }
    assert_eq!(written + dropped, writer::LINES_MAX + BEYOND);
    // The thread may hold one line in addition to those in the queue.
    assert!(dropped >= BEYOND - 1, "{dropped} of {written}");
}

#[test]
fn level_change_applies_per_section_and_atomically() {
    let (logging, buffer) = log("warn,store=off", false);
    tracing::subscriber::with_default(logging.clone(), || {
        let log_two = || {
            tracing::debug!(target: "resp", "one");
            tracing::error!(target: "store", "two");
        };
        log_two();
        logging.set(&[("resp".into(), "debug".into())]).expect("known");
        log_two();
        let changes = [("store".into(), "info".into()), ("cellar".into(), "info".into())];
        let error = logging.set(&changes).expect_err("no such section");
        assert!(error.text().contains("no section"), "{error}");
        log_two();
    });
    logging.flush();
    let text = buffer.text();
    let messages: Vec<_> = text.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(messages, ["one", "one"], "{text}");
    assert!(logging.levels().contains(&("resp".into(), "debug".into())));
}

#[test]
fn tracing_target_maps_to_log_section() {
    let section = |target| SECTIONS[section_of(target)];
    assert_eq!(section("node::route"), "node");
    assert_eq!(section("replication::group"), "consensus");
    for target in ["runtime::log_writer", "transport::tcp", "dynamo::vnode_store", "peers"] {
        assert_eq!(section(target), "node");
    }
    assert_eq!(section("consensus"), "consensus");
    assert_eq!(section("store::trees"), "store");
    assert_eq!(section("store::logs"), "store");
    assert_eq!(section("log"), "log");
    assert_eq!(section("server::resp::serve"), "resp");
    assert_eq!(section("http"), "http");
    assert_eq!(section("server::listener"), "server");
    assert_eq!(section("store::log::segment"), "log");
    assert_eq!(section("server::native::serve"), "http");
    assert_eq!(section("resp"), "resp");
    assert_eq!(section("arakoon"), "server");
    assert_eq!(section("credenza::commands"), "app");
    assert_eq!(section("node_modules"), "other");
}

#[test]
fn event_ring_retains_latest_events_down_to_debug_and_prints_none() {
    let (logging, buffer) = log("off", true);
    tracing::subscriber::with_default(logging.clone(), || {
        for number in 0..ring::EVENTS_MAX as u64 + 5 {
            tracing::debug!(target: "node", number, negative = -1, on = true, half = 0.5, "step");
        }
        tracing::trace!(target: "node", "too fine");
        tracing::error!(target: "log", text = "x".repeat(1_000), "long");
    });
    logging.flush();
    assert_eq!(buffer.text(), "");
    let lines = logging.shared.ring.as_ref().expect("on").lines();
    assert_eq!(lines.len(), ring::EVENTS_MAX);
    assert!(
        lines[0].contains("debug node step number=6 negative=-1 on=true half=0.5"),
        "{}",
        lines[0]
    );
    let last = &lines[ring::EVENTS_MAX - 1];
    assert!(last.contains("error log long") && last.contains("xxx..."), "{last}");
}

#[test]
fn crash_dump_is_private_states_reason_and_old_dumps_are_deleted() {
    use std::os::unix::fs::PermissionsExt;
    let data = std::env::temp_dir().join(format!("credenza-crash-{}", std::process::id()));
    let (logging, _) = log("off", true);
    tracing::subscriber::with_default(logging.clone(), || tracing::debug!(target: "app", "seen"));
    let mut last = PathBuf::new();
    for _ in 0..25 {
        last = logging.dump(&data, "why\nnot").expect("on").expect("written");
    }
    let text = std::fs::read_to_string(&last).expect("readable");
    assert!(text.contains("reason: why\\x0anot\n") && text.contains("app seen"), "{text}");
    let mode = std::fs::metadata(&last).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let count = std::fs::read_dir(crash_directory(&data)).expect("there").count();
    assert_eq!(count, 20);
    std::fs::remove_dir_all(&data).expect("ours");
    assert!(log("off", false).0.dump(&data, "off").is_none());
}

//! The trail with its thread: confirmation, failures, bounds, the end.

use super::{WIDE, entry, file, folder, lines, report};
use crate::record::{AuditOutcome, AuditRecord};
use crate::{AuditLimits, AuditTrail, FloodKind};
use base::Reason;
use runtime::Beat;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn run(trail: &Arc<AuditTrail>) -> JoinHandle<()> {
    let trail = trail.clone();
    std::thread::spawn(move || trail.run(&Beat::new("audit writer")))
}

fn started(folder: &Path, limits: AuditLimits) -> (Arc<AuditTrail>, JoinHandle<()>) {
    let trail = Arc::new(AuditTrail::new(Some(folder.into()), limits));
    let thread = run(&trail);
    (trail, thread)
}

async fn stop(trail: &AuditTrail, thread: JoinHandle<()>) {
    trail.close().await;
    thread.join().expect("it ends");
}

fn act(number: u64) -> AuditRecord {
    entry(number).record
}

async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the scopes of the lines in the first file.
fn scopes(folder: &Path) -> Vec<String> {
    let scope = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["scope"].as_str().map(String::from)
    };
    lines(folder, 1).iter().filter_map(scope).collect()
}

#[tokio::test]
async fn confirmed_record_is_in_the_log_and_others_follow_within_a_second() {
    let place = TempDir::new().expect("a folder");
    let folder = folder(&place);
    let (trail, thread) = started(&folder, WIDE);
    trail.record(act(1));
    trail.confirm(act(2)).await.expect("written");
    assert_eq!(scopes(&folder), ["default/b1", "default/b2"], "in order");
    trail.record_operation(act(3));
    wait_until("it is written", || scopes(&folder).len() == 3).await;
    trail.sync().await.expect("synced");
    stop(&trail, thread).await;
    assert_eq!((report(&folder).broken, report(&folder).lines), (None, 4));
    assert!(trail.confirm(act(4)).await.is_err(), "it has ended");
}

#[tokio::test]
async fn sync_waits_for_the_line_that_opens_the_log() {
    let place = TempDir::new().expect("a folder");
    let folder = folder(&place);
    let trail = Arc::new(AuditTrail::new(Some(folder.clone()), WIDE));
    let mut sync = pin!(trail.sync());
    tokio::select! {
        biased;
        synced = &mut sync => panic!("no thread has opened the log: {synced:?}"),
        () = std::future::ready(()) => {}
    }
    let thread = run(&trail);
    sync.await.expect("synced");
    assert_eq!(lines(&folder, 1).len(), 1);
    stop(&trail, thread).await;
}

#[tokio::test]
async fn act_is_refused_with_the_remedy_while_the_log_cannot_be_written() {
    let place = TempDir::new().expect("a folder");
    let folder = folder(&place);
    std::fs::write(&folder, "a file in the place of the folder").expect("ours");
    let (trail, thread) = started(&folder, WIDE);
    let refused = trail.confirm(act(1)).await.expect_err("it can't be written");
    assert_eq!(refused.reason, Reason::OutOfSpace);
    let text = refused.text();
    assert!(text.contains("nothing was done") && text.contains("audit_failed"), "{text}");
    assert!(trail.failure().expect("known").contains("audit"), "it names the folder");
    let again = Instant::now();
    assert!(trail.confirm(act(2)).await.is_err() && trail.check().is_err());
    assert!(again.elapsed() < Duration::from_secs(1), "it is refused at once");
    // Others are not held up, and are written later.
    trail.record(act(3));
    trail.record_operation(act(4));
    std::fs::remove_file(&folder).expect("ours");
    wait_until("it is written again", || trail.failure().is_none()).await;
    trail.confirm(act(5)).await.expect("written");
    let mut found = scopes(&folder);
    // The first one was tried, if the thread had not failed before.
    found.retain(|scope| scope != "default/b1");
    assert_eq!(found, ["default/b3", "default/b4", "default/b5"]);
    stop(&trail, thread).await;
    assert_eq!(report(&folder).broken, None);
}

#[tokio::test]
async fn failure_while_it_runs_loses_and_doubles_no_line() {
    let place = TempDir::new().expect("a folder");
    let folder = folder(&place);
    let (trail, thread) = started(&folder, AuditLimits { files_max: 50, file_bytes_max: 3_000 });
    trail.confirm(act(0)).await.expect("written");
    // The next file can't be made.
    std::fs::create_dir(file(&folder, 2)).expect("ours");
    (1..30).for_each(|number| trail.record(act(number)));
    wait_until("it fails", || trail.failure().is_some()).await;
    assert!(trail.confirm(act(99)).await.is_err());
    std::fs::remove_dir(file(&folder, 2)).expect("ours");
    wait_until("it is written again", || trail.failure().is_none()).await;
    trail.sync().await.expect("synced");
    stop(&trail, thread).await;
    let found = report(&folder);
    assert_eq!(found.broken, None);
    let all: Vec<_> = (1..=found.files).flat_map(|number| lines(&folder, number)).collect();
    for number in 0..30 {
        let scope = format!("\"default/b{number}\"");
        let count = all.iter().filter(|line| line.contains(&scope)).count();
        assert_eq!(count, 1, "{scope}");
    }
}

#[tokio::test]
async fn queue_is_bounded_leaves_places_to_acts_and_what_is_lost_is_counted() {
    let place = TempDir::new().expect("a folder");
    let folder = folder(&place);
    let limits = AuditLimits { file_bytes_max: 64 << 20, ..WIDE };
    let trail = Arc::new(AuditTrail::new(Some(folder.clone()), limits));
    (0..5_000).for_each(|number| trail.record_operation(act(number)));
    trail.record(act(77_777));
    let thread = run(&trail);
    stop(&trail, thread).await;
    let found = scopes(&folder);
    assert_eq!(found.len(), 4_097);
    assert_eq!(found.last().map(String::as_str), Some("default/b77777"));
    let lost = lines(&folder, 1).into_iter().find(|line| line.contains("lost_records"));
    let lost: serde_json::Value = serde_json::from_str(&lost.expect("it says so")).expect("JSON");
    assert_eq!((&lost["count"], &lost["who"]), (&904.into(), &"(node)".into()));
}

#[tokio::test]
async fn flood_of_refusals_takes_few_lines_and_keeps_acts_going() {
    let place = TempDir::new().expect("a folder");
    let folder = folder(&place);
    let (trail, thread) = started(&folder, WIDE);
    let refusal = |last: u8| AuditRecord {
        who: "(unknown)".into(),
        address: Some([198, 18, 0, last].into()),
        operation: "login",
        outcome: AuditOutcome::Denied(Reason::Unauthenticated),
        ..AuditRecord::default()
    };
    for number in 0..200_000u32 {
        trail.record_bounded(FloodKind::Refusal, refusal((number % 3) as u8));
    }
    trail.confirm(act(1)).await.expect("written");
    stop(&trail, thread).await;
    let found = lines(&folder, 1);
    assert_eq!(found.iter().filter(|line| line.contains("(unknown)")).count(), 3 * 16);
    assert!(scopes(&folder).contains(&"default/b1".to_string()));
}

#[tokio::test]
async fn trail_without_a_folder_confirms_everything_and_writes_nothing() {
    let trail = AuditTrail::new(None, WIDE);
    assert!(trail.is_off());
    trail.record(act(1));
    trail.record_bounded(FloodKind::Login, act(2));
    assert_eq!(trail.confirm(act(3)).await, Ok(()));
    assert_eq!(trail.check(), Ok(()));
    trail.run(&Beat::new("audit writer"));
    trail.close().await;
}

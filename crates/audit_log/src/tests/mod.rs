//! Tests of the audit log: laws of the chain, rotation, crashes, the thread.

mod chain;
mod crash;
mod flood;
mod rotation;
mod trail;

use crate::record::{AuditEntry, AuditRecord};
use crate::writer::{AuditLimits, AuditWriter};
use crate::{AuditOutcome, AuditReport, verify};
use base::Reason;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Limits that nothing here reaches.
const WIDE: AuditLimits = AuditLimits { files_max: 16, file_bytes_max: 1 << 20 };

/// Returns an entry that differs from those of other numbers.
fn entry(number: u64) -> AuditEntry {
    let record = AuditRecord {
        who: "ada".into(),
        protocol: "http",
        address: Some([198, 18, 0, 1].into()),
        operation: "alter_bucket",
        scope: format!("default/b{number}"),
        outcome: match number % 3 {
            0 => AuditOutcome::Denied(Reason::Forbidden),
            _ => AuditOutcome::Done,
        },
        ..AuditRecord::default()
    };
    AuditEntry { at_ms: 1_700_000_000_000 + number, record }
}

fn entries(count: u64) -> Vec<AuditEntry> {
    (0..count).map(entry).collect()
}

fn folder(place: &TempDir) -> PathBuf {
    place.path().join("audit")
}

/// Writes a log with an opening line and these many others.
fn written(limits: AuditLimits, count: u64) -> TempDir {
    let place = TempDir::new().expect("a folder");
    append(&folder(&place), limits, count);
    place
}

fn append(folder: &Path, limits: AuditLimits, count: u64) {
    let mut writer = AuditWriter::open(folder, limits, 0).expect("opens");
    writer.append(&entries(count)).expect("written");
    writer.sync().expect("synced");
}

fn report(folder: &Path) -> AuditReport {
    verify(folder, None).expect("readable")
}

fn file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("audit-{number:010}.jsonl"))
}

fn lines(folder: &Path, number: u64) -> Vec<String> {
    let text = std::fs::read_to_string(file(folder, number)).expect("text");
    text.lines().map(String::from).collect()
}

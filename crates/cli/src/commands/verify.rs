//! `credenza verify`: reads every byte of a data directory that no node has open.

use crate::offline::{self, DirectoryReport};
use crate::output;
use program::units::show_size;
use program::{Failure, Outcome};
use serde_json::json;
use std::path::PathBuf;
use store::StoreError;
use store::disk::{SyncFigures, measure_sync};

pub const EXAMPLES: &str = "\
Examples:
  credenza verify data                             stop the node first
  credenza verify data/checkpoints/monday          a copy, while the node runs

Every checksum of the transaction log and of the store is verified, the order of all rows too;
nothing is repaired or changed. A torn tail of the log is no damage: it is what a crash leaves
behind, and the next start cuts it. `credenza group verify` compares the replicas of running nodes.

Exit code 7: something is damaged; the file and the place in it are named.";

/// Number of writes by which the disk is measured.
const SYNCS: usize = 100;

/// `credenza verify`.
#[derive(clap::Args)]
pub struct Verify {
    /// The data directory, or a checkpoint
    directory: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Verify {
    /// Reads the whole directory and prints the report.
    pub fn run(self) -> Outcome {
        let data = offline::open(&self.directory)?;
        let report = offline::verify(&data)?;
        let sync = measure_sync(&self.directory, SYNCS);
        if self.json {
            output::json(&as_json(&report, sync.as_ref().ok()))?;
        } else {
            output::text(&as_text(&report, &sync))?;
        }
        check_damage(&report)
    }
}

/// Returns the failure of a damaged directory.
pub fn check_damage(report: &DirectoryReport) -> Outcome {
    let Some(first) = report.damage.first() else { return Ok(()) };
    let places = report.damage.len();
    let text = format!("{} is damaged at byte {}: {}", first.file, first.offset, first.description);
    let more = if places > 1 { format!(" (and {} more)", places - 1) } else { String::new() };
    let remedy = "restore a checkpoint, or keep this directory and ask for help";
    Err(Failure::new(base::Kind::Corrupt, format!("{text}{more}: {remedy}")))
}

fn as_text(report: &DirectoryReport, sync: &Result<SyncFigures, StoreError>) -> String {
    let (log, trees) = (&report.log, &report.trees);
    let end = match (log.is_closed, log.torn_bytes) {
        (true, _) => "closed in order".into(),
        (false, 0) => "not closed in order".into(),
        (false, torn) => format!("torn tail of {torn} bytes, which the next start cuts"),
    };
    let sync = match sync {
        Ok(figures) => format!("a write of 4 KiB is durable after {} us (median)", figures.p50_us),
        Err(why) => format!("not measured: {why}"),
    };
    let mut text = format!(
        "log        {} in {} segments, {} records, {end}\n\
         store      {} in {} tables, {} blocks, {} rows, {} tombstones\n\
         disk       {sync}\n",
        show_size(log.bytes),
        log.segments.len(),
        log.records,
        show_size(trees.bytes),
        trees.tables,
        trees.blocks,
        trees.rows,
        trees.tombstones,
    );
    for damage in &report.damage {
        text.push_str(&format!(
            "DAMAGED    {} byte {}: {}\n",
            damage.file, damage.offset, damage.description
        ));
    }
    text.push_str(if report.damage.is_empty() { "sound\n" } else { "" });
    text
}

fn as_json(report: &DirectoryReport, sync: Option<&SyncFigures>) -> serde_json::Value {
    let (log, trees) = (&report.log, &report.trees);
    let damage = report.damage.iter().map(
        |entry| json!({ "file": entry.file, "offset": entry.offset, "what": entry.description }),
    );
    json!({
        "sound": report.damage.is_empty(),
        "damage": damage.collect::<Vec<_>>(),
        "log": {
            "bytes": log.bytes, "segments": log.segments.len(), "records": log.records,
            "torn_bytes": log.torn_bytes, "closed": log.is_closed,
        },
        "store": {
            "bytes": trees.bytes, "tables": trees.tables, "blocks": trees.blocks,
            "rows": trees.rows, "tombstones": trees.tombstones,
        },
        "disk": { "fdatasync_us_p50": sync.map(|figures| figures.p50_us) },
    })
}

//! Progress of an import: the records acknowledged so far, as a bar, as a position to resume from,
//! as a summary.

use super::resume::InputPosition;
use super::send::SentBatch;
use indicatif::{ProgressBar, ProgressStyle};
use program::units::show_size;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Instant;

/// Progress so far.
pub struct ImportProgress {
    bar: ProgressBar,
    started_at: Instant,
    position: InputPosition,
    next_round: u64,
    lanes: usize,
    acknowledged_lanes: BTreeMap<u64, usize>,
    records: u64,
    bytes: u64,
    skipped: u64,
}

/// Totals of an import at its end.
#[derive(Debug)]
pub struct Summary {
    records: u64,
    bytes: u64,
    skipped: u64,
    seconds: f64,
}

impl ImportProgress {
    /// Starts a bar (on a terminal) over an input of this length, sent in this many lanes.
    pub fn new(length: Option<u64>, start: InputPosition, lanes: usize) -> ImportProgress {
        let bar = match length {
            Some(length) => ProgressBar::new(length).with_style(style(
                "{wide_bar} {bytes}/{total_bytes}  {msg}  {elapsed} (about {eta} to go)",
            )),
            None => {
                ProgressBar::new_spinner().with_style(style("{spinner} {bytes}  {msg}  {elapsed}"))
            }
        };
        bar.set_position(start.offset);
        ImportProgress {
            bar,
            started_at: Instant::now(),
            position: start,
            next_round: 0,
            lanes,
            acknowledged_lanes: BTreeMap::new(),
            records: 0,
            bytes: 0,
            skipped: 0,
        }
    }

    /// Counts a batch that was acknowledged.
    pub fn add(&mut self, batch: SentBatch) {
        self.records += batch.records;
        self.bytes += batch.bytes;
        self.skipped += batch.skipped;
        // Batches of a lane are acknowledged in order, so the batch that completes the oldest round
        // carries the end of that round.
        *self.acknowledged_lanes.entry(batch.number).or_default() += 1;
        if self.acknowledged_lanes.get(&self.next_round) == Some(&self.lanes) {
            self.acknowledged_lanes.remove(&self.next_round);
            self.position = batch.end;
            self.next_round += 1;
        }
        self.bar.set_position(self.position.offset);
        let per_second = self.records as f64 / self.started_at.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("{} records, {per_second:.0}/s", self.records));
    }

    /// Returns the bar, for messages beside it on the terminal.
    pub fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Returns the number of records left out so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the position before which all records are acknowledged.
    pub fn position(&self) -> InputPosition {
        self.position
    }

    /// Removes the bar; returns the totals.
    pub fn finish(&mut self) -> Summary {
        self.bar.finish_and_clear();
        let seconds = self.started_at.elapsed().as_secs_f64();
        Summary { records: self.records, bytes: self.bytes, skipped: self.skipped, seconds }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are well formed")
}

impl Summary {
    /// Formats the totals as one line.
    pub fn text(&self) -> String {
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(", {skipped} skipped"),
        };
        format!(
            "{} records ({}) in {:.1} s, {:.0} a second{skipped}",
            self.records,
            show_size(self.bytes),
            self.seconds,
            self.records as f64 / self.seconds.max(0.001)
        )
    }

    /// Returns the totals as JSON.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "records": self.records,
            "bytes": self.bytes,
            "skipped": self.skipped,
            "seconds": self.seconds,
        })
    }
}

//! `credenza import`: loads records from a file, many sequences in flight.
//!
//! One thread reads and cuts the input into rounds, with a parcel for each connection; a connection
//! sends each of its parcels as one sequence, in order; what is acknowledged without a gap from the
//! beginning on is what the resume file remembers.
//!
//! Promises: a record is counted only after it was acknowledged; a wrong record is named by its
//! line; of a key that stands twice the later value stays; after a kill at any point, the same
//! command with the same resume file loads the rest.
//! Never: holds more of the input in memory than the parcels in flight.
//! Read next: `parcels.rs`, then `send.rs`.

mod parcels;
mod progress;
mod resume;
mod send;

#[cfg(test)]
mod tests;

use super::Place;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::records::{Fields, Format};
use parcels::{Cut, Parcel};
use progress::Progress;
use resume::Resume;
use send::{Sender, Sent};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub const EXAMPLES: &str = "\
Examples:
  credenza import users.tsv -b users
  credenza import events.jsonl --key-field id --value-field .     the whole line is the value
  zcat dump.raw.gz | credenza import --format raw --resume dump.resume
  credenza import dirty.tsv --errors skip

Formats: tsv (key, tab, value; \\t \\n \\r \\\\ \\xNN escaped), jsonl (an object a line; bytes
that are no text as {\"base64\": \"..\"}), raw (what `credenza export --format raw` writes).
Existing keys are overwritten. After an interruption, run the same command with the same --resume.";

/// Parcels that wait for a connection while another is on its way.
const PARCELS_WAITING_MAX: usize = 2;

/// What happens at a wrong record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Errors {
    /// Name it and go on
    Skip,
    /// Name it and stop
    Stop,
}

/// `credenza import`.
#[derive(clap::Args)]
pub struct Import {
    /// The file; `-` is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The file's format; by default told by its ending (.tsv, .jsonl, .raw)
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// In jsonl: the field that holds the key
    #[arg(long, value_name = "NAME", default_value = "key")]
    key_field: String,
    /// In jsonl: the field that holds the value; `.` is the whole line
    #[arg(long, value_name = "NAME", default_value = "value")]
    value_field: String,
    /// What happens at a wrong record
    #[arg(long, value_enum, default_value = "stop")]
    errors: Errors,
    /// Remember in this file how far it got, and go on from there
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Let the records expire after this time
    #[arg(long, value_name = "TIME", value_parser = crate::settings::units::time_ms)]
    ttl: Option<u64>,
    /// Connections that load at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Records in one sequence, at most
    #[arg(long, default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    #[command(flatten)]
    place: Place,
}

impl Import {
    /// Loads everything.
    pub async fn run(self) -> Outcome {
        let format = format_of(self.format, &self.file)?;
        let input = parcels::Input::open(&self.file)?;
        let mut resume = match &self.resume {
            Some(path) => Some(Resume::open(path, &input, format, &self.place.bucket)?),
            None => None,
        };
        let start = resume.as_ref().map(|resume| resume.reached()).unwrap_or_default();
        let connections = usize::from(self.connections);
        let mut progress = Progress::new(input.length(), start, connections);
        let cut = Cut {
            format,
            fields: Fields { key: self.key_field.clone(), value: self.value_field.clone() },
            errors: self.errors,
            records_max: self.batch as usize,
        };
        let lanes = (0..connections).map(|_| mpsc::channel(PARCELS_WAITING_MAX));
        let (lanes, waiting): (Vec<_>, Vec<_>) = lanes.unzip();
        let (mut senders, mut sent) = self.senders(waiting)?;
        let reader = parcels::read(input, start, cut, lanes)?;
        while let Some(sent) = sent.recv().await {
            progress.take(sent);
            if let Some(resume) = &mut resume {
                resume.save_sometimes(progress.reached())?;
            }
        }
        // Every sender has ended; a failure of one is the failure of all.
        let mut outcome = Ok(());
        while let Some(ended) = senders.join_next().await {
            let ended = ended.map_err(|error| Failure::invalid(format!("a sender died: {error}")));
            outcome = outcome.and(ended.and_then(|ended| ended));
        }
        if let Some(resume) = &mut resume {
            resume.save(progress.reached())?;
        }
        let stopped = outcome.and_then(|()| reader.join().unwrap_or_else(|_| Err(reader_died())));
        self.report(&mut progress, stopped)
    }

    /// Starts a task for every connection; each ends when there are no more parcels or at a
    /// failure.
    fn senders(
        &self,
        lanes: Vec<mpsc::Receiver<Parcel>>,
    ) -> Outcome<(JoinSet<Outcome>, mpsc::Receiver<Sent>)> {
        let (report, sent) = mpsc::channel(64);
        let mut senders = JoinSet::new();
        for waiting in lanes {
            let path = self.place.path("/sequence");
            let sender = Sender::new(self.place.client()?, path, self.ttl, self.errors);
            senders.spawn(sender.run(waiting, report.clone()));
        }
        Ok((senders, sent))
    }

    fn report(&self, progress: &mut Progress, stopped: Outcome) -> Outcome {
        let summary = progress.finish();
        if self.place.json {
            output::json(&summary.json())?;
        } else {
            output::text(&format!("{}\n", summary.text()))?;
        }
        stopped.map_err(|failure| match &self.resume {
            Some(path) => failure.and(&format!("; go on with --resume {}", path.display())),
            None => failure,
        })
    }
}

fn reader_died() -> Failure {
    Failure::invalid("the reader of the input died")
}

/// The format that was asked for, or what the file's name ends with.
pub fn format_of(asked: Option<Format>, file: &Path) -> Outcome<Format> {
    let ending = file.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let told = match ending.as_deref() {
        Some("tsv" | "txt") => Some(Format::Tsv),
        Some("jsonl" | "ndjson" | "json") => Some(Format::Jsonl),
        Some("raw") => Some(Format::Raw),
        _ => None,
    };
    asked.or(told).ok_or_else(|| Failure::invalid("name the format: --format tsv, jsonl or raw"))
}

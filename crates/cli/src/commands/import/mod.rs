//! `credenza import`: loads records from a file, many chunks of them in flight.
//!
//! One thread reads and cuts the input into rounds, with a batch for each connection. A connection
//! sends each of its batches as one chunk, in order. The resume file records the end of the
//! rounds that are acknowledged without a gap from the beginning.
//!
//! Promises: a record counts only after it was acknowledged; a wrong record is named by its line;
//! of two records with one key the later value stays; after a kill at any point, the same command
//! with the same resume file loads the rest.
//! Never: holds more of the input in memory than the batches in flight.
//! Read next: `batches.rs`, then `send.rs`.

mod batches;
mod progress;
mod resume;
mod send;
mod skips;

#[cfg(test)]
mod tests;

use super::BucketAddress;
use super::bucket_info::BucketInfo;
use crate::output;
use batches::{ImportBatch, InputFormat};
use program::units::time_with_unit_ms;
use program::{Failure, Outcome};
use progress::ImportProgress;
use record_files::{FieldNames, Format};
use resume::{InputPosition, Resume};
use send::{Sender, SentBatch, chunk_path};
use skips::Skips;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub const EXAMPLES: &str = "\
Examples:
  credenza import users.tsv -b users
  credenza import events.jsonl --key-field id --value-field .     the whole line is the value
  zcat dump.raw.gz | credenza import --format raw --resume dump.resume
  credenza import people.csv --key-column id --value-column name
  credenza import people.csv --key-column id --value-json --delimiter ';'
  credenza import dirty.tsv --rejects bad.tsv      wrong lines go there: repair and import it

Formats: tsv (key, tab, value; \\t \\n \\r \\\\ \\xNN escaped), jsonl (an object a line; bytes
that are no text as {\"base64\": \"..\"}; a value that is no string, 17 say, as its JSON text), csv
(RFC 4180; the first row names the columns), raw (what `credenza export --format raw` writes).

A wrong record stops the import. With --errors skip, or --rejects FILE, it is left out; exit code 2
says at the end that some were, unless --max-errors allows as many. FILE.reasons holds a line for
each record in FILE: its line in the input, and why it was rejected.

Existing keys are overwritten. After an interruption, run the same command with the same --resume.

In an available bucket a record replaces what its key holds, siblings too, as far as the node that
takes it knows.";

/// Most batches that wait for a connection while another is in flight.
const BATCHES_QUEUED_MAX: usize = 2;

/// Treatment of a wrong record.
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
    /// The file's format; by default that of its ending (.tsv, .jsonl, .csv, .raw)
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// In jsonl and csv: the field or column that holds the key
    #[arg(long, value_name = "NAME", default_value = "key", visible_alias = "key-column")]
    key_field: String,
    /// In jsonl and csv: the field or column that holds the value; `.` is the whole line
    #[arg(long, value_name = "NAME", default_value = "value", visible_alias = "value-column")]
    value_field: String,
    /// In jsonl and csv: the value is the whole line or row, as a JSON object
    #[arg(long, conflicts_with = "value_field")]
    value_json: bool,
    /// In csv: what stands between columns, one character or `tab`
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// Treatment of a wrong record: `stop`, unless --rejects or --max-errors is given
    #[arg(long, value_enum)]
    errors: Option<Errors>,
    /// Leave wrong records out, and write them into this file
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Leave wrong records out; up to so many are no failure
    #[arg(long, value_name = "NUMBER")]
    max_errors: Option<u64>,
    /// Take records with an empty key
    #[arg(long)]
    allow_empty_key: bool,
    /// Remember in this file how far it got, and go on from there
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Let the records expire after this time: 500ms, 30s, 5m, 1h30m, 1d
    #[arg(long, value_name = "TIME", value_parser = time_with_unit_ms)]
    #[arg(allow_hyphen_values = true)]
    ttl: Option<u64>,
    /// Connections that load at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Records in one chunk, at most; it ends earlier at 512 KiB
    #[arg(long, default_value_t = 4_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    #[command(flatten)]
    address: BucketAddress,
}

impl Import {
    /// Loads all records.
    pub async fn run(self) -> Outcome {
        let format = format_of(self.format, &self.file)?;
        let input = batches::Input::open(&self.file)?;
        // The bucket is checked before anything is read: its absence is not an error of a line.
        let bucket_info = BucketInfo::of(&self.address, &mut self.address.client()?).await?;
        let mut resume = match &self.resume {
            Some(path) => Some(Resume::open(path, &input, format, &self.address.bucket)?),
            None => None,
        };
        let start = resume.as_ref().map(|resume| resume.position()).unwrap_or_default();
        let connections = usize::from(self.connections);
        let mut progress = ImportProgress::new(input.length(), start, connections);
        let is_resumed = start != InputPosition::default();
        let skips = Arc::new(Skips::new(progress.bar(), self.rejects.as_deref(), is_resumed)?);
        let input_format = self.input_format(format, skips.clone())?;
        let lanes = (0..connections).map(|_| mpsc::channel(BATCHES_QUEUED_MAX));
        let (lanes, receivers): (Vec<_>, Vec<_>) = lanes.unzip();
        let path = chunk_path(&self.address.path("/import"), bucket_info.is_available, self.ttl);
        let errors = input_format.errors;
        let (mut senders, mut acknowledged) = self.senders(receivers, &path, errors, &skips)?;
        let reader = batches::read(input, start, input_format, lanes)?;
        while let Some(batch) = acknowledged.recv().await {
            progress.add(batch);
            if let Some(resume) = &mut resume {
                resume.save_if_due(progress.position(), progress.skipped())?;
            }
        }
        // Every sender has ended; the failure of one is the failure of all.
        let mut outcome = Ok(());
        while let Some(result) = senders.join_next().await {
            let result =
                result.map_err(|error| Failure::invalid(format!("a sender died: {error}")));
            outcome = outcome.and(result.and_then(|result| result));
        }
        if let Some(resume) = &mut resume {
            resume.save(progress.position(), progress.skipped())?;
        }
        let result =
            outcome.and_then(|()| reader.join().unwrap_or_else(|_| Err(reader_panicked())));
        let skipped_before = resume.as_ref().map_or(0, |resume| resume.skipped_before());
        self.report(&mut progress, skipped_before, result)
    }

    /// Returns the format of the input and the treatment of its records, by the flags.
    fn input_format(&self, format: Format, skips: Arc<Skips>) -> Outcome<InputFormat> {
        let skips_some = self.rejects.is_some() || self.max_errors.is_some();
        let errors = match self.errors {
            Some(Errors::Stop) if skips_some => {
                let text = "--errors stop leaves nothing out: give it without --rejects and \
                            --max-errors";
                return Err(Failure::invalid(text));
            }
            Some(errors) => errors,
            None if skips_some => Errors::Skip,
            None => Errors::Stop,
        };
        let value = if self.value_json { ".".into() } else { self.value_field.clone() };
        let fields = FieldNames { key: self.key_field.clone(), value, delimiter: self.delimiter };
        let records_max = self.batch as usize;
        let allows_empty_key = self.allow_empty_key;
        Ok(InputFormat { format, fields, errors, skips, allows_empty_key, records_max })
    }

    /// Starts a task for every connection; each ends when there are no more batches or at a
    /// failure.
    fn senders(
        &self,
        lanes: Vec<mpsc::Receiver<ImportBatch>>,
        path: &str,
        errors: Errors,
        skips: &Arc<Skips>,
    ) -> Outcome<(JoinSet<Outcome>, mpsc::Receiver<SentBatch>)> {
        let (report, sent) = mpsc::channel(64);
        let mut senders = JoinSet::new();
        for batches in lanes {
            let client = self.address.client()?;
            let sender = Sender::new(client, path.into(), errors, skips.clone());
            senders.spawn(sender.run(batches, report.clone()));
        }
        Ok((senders, sent))
    }

    /// Prints the summary; `skipped_before`: number of records that earlier runs left out.
    fn report(
        &self,
        progress: &mut ImportProgress,
        skipped_before: u64,
        result: Outcome,
    ) -> Outcome {
        let skipped = skipped_before + progress.skipped();
        let summary = progress.finish();
        if self.address.json {
            output::json(&summary.json())?;
        } else {
            output::text(&format!("{}\n", summary.text()))?;
        }
        result.map_err(|failure| match &self.resume {
            Some(path) => failure.with_suffix(&format!("; go on with --resume {}", path.display())),
            None => failure,
        })?;
        if skipped <= self.max_errors.unwrap_or(0) {
            return Ok(());
        }
        let place = match &self.rejects {
            Some(path) => format!("see {0}, and {0}.reasons for why", path.display()),
            None => "see above".into(),
        };
        let records =
            if skipped == 1 { "1 record was".into() } else { format!("{skipped} records were") };
        let text = format!("{records} left out: {place} (--max-errors {skipped} allows that)");
        Err(Failure::invalid(text))
    }
}

/// Parses the delimiter of columns.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("expected one ASCII character that is no quote and no line end, or `tab`".into()),
    }
}

fn reader_panicked() -> Failure {
    Failure::invalid("the reader of the input died")
}

/// Returns the requested format, or that of the file's name.
pub fn format_of(requested: Option<Format>, file: &Path) -> Outcome<Format> {
    let extension =
        file.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    let from_extension = match extension.as_deref() {
        Some("tsv" | "txt") => Some(Format::Tsv),
        Some("jsonl" | "ndjson" | "json") => Some(Format::Jsonl),
        Some("csv") => Some(Format::Csv),
        Some("raw") => Some(Format::Raw),
        _ => None,
    };
    requested
        .or(from_extension)
        .ok_or_else(|| Failure::invalid("name the format: --format tsv, jsonl, csv or raw"))
}

//! `credenza export`: writes records to a file.
//!
//! Promises: no row is left out silently; an interrupted export goes on after the last complete key
//! in its file.
//! Never: overwrites a file that is not an export.
//! Read next: `rows.rs`.

mod rows;

use super::bucket_info::BucketInfo;
use super::import::{delimiter, format_of};
use super::keys::KeyPages;
use super::range::{Pages, RangeArguments};
use super::{BucketAddress, ReadLevelArguments};
use crate::args::Encoding;
use crate::output;
use base::Kind;
use client::{Client, encode};
use indicatif::{ProgressBar, ProgressStyle};
use program::{Failure, Outcome};
use record_files::{FieldNames, Format, Tail, Writer};
use rows::{KeyValues, Rows};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  credenza export users.tsv -b users
  credenza export --format jsonl --prefix user: | gzip > users.jsonl.gz
  credenza export people.csv --key-column id --value-column name
  credenza export all.raw                          the fastest to load again
  credenza export fruit.tsv -b available/fruit     an available bucket

Rows are read page by page: each page is consistent, but a row that changes meanwhile is seen either
old or new. For one moment of all buckets, see `credenza checkpoint`. Times to live are not
written. With --resume an export that was cut short goes on behind its last whole record.

An available bucket is read key by key. A key with siblings ends the export with exit code 4, unless
--siblings says what is written of it. Metadata that Riak's clients store with a value are not
written.";

/// Treatment of a key that has siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SiblingsTreatment {
    /// Name it and stop
    Stop,
    /// Write a record for each value, the newest last: an import keeps that one
    Each,
    /// Name it, leave it out, and end with exit code 4
    Skip,
}

/// `credenza export`.
#[derive(clap::Args)]
pub struct Export {
    /// The file, which must not exist (but see --resume); `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Go on with a file that an export of the same rows was cut short in
    #[arg(long)]
    resume: bool,
    /// The file's format; by default that of its ending (.tsv, .jsonl, .csv, .raw); tsv to standard
    /// output
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// In jsonl and csv: the field or column that holds the key
    #[arg(long, value_name = "NAME", default_value = "key", visible_alias = "key-column")]
    key_field: String,
    /// In jsonl and csv: the field or column that holds the value
    #[arg(long, value_name = "NAME", default_value = "value", visible_alias = "value-column")]
    value_field: String,
    /// In csv: what stands between columns, one character or `tab`
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// In an available bucket: what is done with a key that has siblings
    #[arg(long, value_enum, default_value = "stop")]
    siblings: SiblingsTreatment,
    #[command(flatten)]
    range: RangeArguments,
    #[command(flatten)]
    encoding: Encoding,
    #[command(flatten)]
    read_level: ReadLevelArguments,
    #[command(flatten)]
    address: BucketAddress,
}

impl Export {
    /// Writes all records.
    pub async fn run(self) -> Outcome {
        let format = match self.file.as_os_str() == "-" {
            true => self.format.unwrap_or(Format::Tsv),
            false => format_of(self.format, &self.file)?,
        };
        let to_file = self.file.as_os_str() != "-";
        let (key, value) = (self.key_field.clone(), self.value_field.clone());
        let fields = FieldNames { key, value, delimiter: self.delimiter };
        let mut client = self.address.client()?;
        let bucket_info = BucketInfo::of(&self.address, &mut client).await?;
        let tail = if self.resume && to_file { self.tail(format, &fields)? } else { None };
        let mut rows = self.rows(client, &bucket_info, tail.as_ref())?;
        // The first page is read before the file is created: a wrong request leaves no empty file
        // behind.
        let mut page = rows.next().await?;
        let file: Box<dyn Write> = match (to_file, &tail) {
            (true, Some(tail)) => Box::new(self.reopen(tail)?),
            (true, None) => Box::new(self.create()?),
            (false, _) => Box::new(std::io::stdout().lock()),
        };
        let mut writer = Writer::new(BufWriter::with_capacity(256 * 1024, file), format, fields);
        if tail.as_ref().is_some_and(|tail| tail.offset > 0) {
            writer = writer.after_existing_records();
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{spinner} {human_pos} records  {per_sec}  {elapsed}")
                .expect("the template is well formed"),
        );
        let write_failure = |error| match to_file {
            true => Failure::file("write", &self.file, &error),
            false => output::write_failure(error),
        };
        while let Some(records) = page {
            for record in &records {
                writer.write(&record.key, &record.value).map_err(write_failure)?;
            }
            bar.inc(records.len() as u64);
            page = rows.next().await?;
        }
        writer.finish().map_err(write_failure)?;
        bar.finish_and_clear();
        match tail {
            Some(tail) => eprintln!("{} records behind {}", bar.position(), tail.records),
            None => eprintln!("{} records", bar.position()),
        }
        match rows.skipped_keys() {
            0 => Ok(()),
            keys => {
                let text = format!("{keys} keys with siblings were left out: they are named above");
                Err(Failure::new(Kind::Conflict, text))
            }
        }
    }

    /// Returns the range to be read: all of it, or the part after the last key of the file.
    fn rows(&self, client: Client, bucket_info: &BucketInfo, tail: Option<&Tail>) -> Outcome<Rows> {
        let query = self.range.query(self.encoding)?;
        let freshness = format!("consistency={}", encode(self.read_level.consistency.as_bytes()));
        let last_key = tail.and_then(|tail| tail.key.as_ref());
        if bucket_info.is_available {
            let mut pages =
                KeyPages::new(self.address.client()?, self.address.path("/keys"), query);
            if let Some(key) = last_key {
                pages = pages.start_after(key);
            }
            let location = (self.address.path(""), freshness);
            return Ok(Rows::Keys(Box::new(KeyValues::new(
                client,
                location,
                pages,
                self.siblings,
            ))));
        }
        let query = format!("{query}&{freshness}");
        let mut pages = Pages::new(client, self.address.path("/range"), query);
        if let Some(key) = last_key {
            pages = pages.start_after(key);
        }
        Ok(Rows::Range(Box::new(pages)))
    }

    /// Returns the end of an existing file. `None`: there is no file.
    fn tail(&self, format: Format, fields: &FieldNames) -> Outcome<Option<Tail>> {
        let file = match File::open(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::file("read", &self.file, &error)),
            Ok(file) => BufReader::with_capacity(256 * 1024, file),
        };
        let tail = Tail::read(file, format, fields.clone()).map_err(|what| {
            let path = self.file.display();
            Failure::invalid(format!("{path} is no export that can go on: {what}"))
        })?;
        // Some values of a key with siblings may be missing: the key is written once more.
        Ok(Some(if self.siblings == SiblingsTreatment::Each {
            tail.without_last_key()
        } else {
            tail
        }))
    }

    /// Opens the file, cut after its last complete record.
    fn reopen(&self, tail: &Tail) -> Outcome<File> {
        let failed = |error| Failure::file("write", &self.file, &error);
        let file = OpenOptions::new().append(true).open(&self.file).map_err(failed)?;
        file.set_len(tail.offset).map_err(failed)?;
        Ok(file)
    }

    fn create(&self) -> Outcome<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&self.file).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::invalid(format!("{} exists: name another file", self.file.display()))
            }
            _ => Failure::file("create", &self.file, &error),
        })
    }
}

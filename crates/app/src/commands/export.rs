//! `credenza export`: writes records to a file.

use super::import::format_of;
use super::range::{Pages, Span, bytes_of};
use super::{Freshness, Place};
use crate::client::encode;
use crate::failure::{Failure, Outcome};
use crate::given::Encoding;
use crate::output;
use crate::records::{Fields, Format, Tail, Writer};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  credenza export users.tsv -b users
  credenza export --format jsonl --prefix user: | gzip > users.jsonl.gz
  credenza export all.raw                          the fastest to load again

Rows are read page by page: each page is consistent, but a row that changes meanwhile is seen either
old or new. For one moment of all buckets, see `credenza checkpoint`. Times to live are not
written. With --resume an export that was cut short goes on behind its last whole record.";

/// Rows in a page.
const PAGE_ROWS: usize = 5_000;

/// `credenza export`.
#[derive(clap::Args)]
pub struct Export {
    /// The file, which must not exist (but see --resume); `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Go on with a file that an export of the same rows was cut short in
    #[arg(long)]
    resume: bool,
    /// The file's format; by default told by its ending (.tsv, .jsonl, .raw); tsv to standard
    /// output
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// In jsonl: the field that holds the key
    #[arg(long, value_name = "NAME", default_value = "key")]
    key_field: String,
    /// In jsonl: the field that holds the value
    #[arg(long, value_name = "NAME", default_value = "value")]
    value_field: String,
    #[command(flatten)]
    span: Span,
    #[command(flatten)]
    encoding: Encoding,
    #[command(flatten)]
    freshness: Freshness,
    #[command(flatten)]
    place: Place,
}

impl Export {
    /// Writes everything.
    pub async fn run(self) -> Outcome {
        let format = match self.file.as_os_str() == "-" {
            true => self.format.unwrap_or(Format::Tsv),
            false => format_of(self.format, &self.file)?,
        };
        let mut query = self.span.query(self.encoding)?;
        query.push_str(&format!("&consistency={}", encode(self.freshness.consistency.as_bytes())));
        let to_file = self.file.as_os_str() != "-";
        let fields = Fields { key: self.key_field.clone(), value: self.value_field.clone() };
        let tail = if self.resume && to_file { self.tail(format, &fields)? } else { None };
        let mut pages = Pages::new(self.place.client()?, self.place.path("/range"), query);
        if let Some(key) = tail.as_ref().and_then(|tail| tail.key.as_ref()) {
            pages = pages.behind(key);
        }
        // The first page before the file: a mistake in the request leaves no empty file behind.
        let mut page = pages.next(PAGE_ROWS).await?;
        let file: Box<dyn Write> = match (to_file, &tail) {
            (true, Some(tail)) => Box::new(self.reopen(tail)?),
            (true, None) => Box::new(self.create()?),
            (false, _) => Box::new(std::io::stdout().lock()),
        };
        let mut writer = Writer::new(BufWriter::with_capacity(256 * 1024, file), format, fields);
        if tail.as_ref().is_some_and(|tail| tail.offset > 0) {
            writer = writer.behind_others();
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{spinner} {human_pos} records  {per_sec}  {elapsed}")
                .expect("the template is well formed"),
        );
        let unwritten = |error| match to_file {
            true => Failure::file("write", &self.file, &error),
            false => output::unwritten(error),
        };
        while let Some(entries) = page {
            for entry in &entries {
                let (key, value) = (bytes_of(entry, "key")?, bytes_of(entry, "value")?);
                writer.write(&key, &value).map_err(unwritten)?;
            }
            bar.inc(entries.len() as u64);
            page = pages.next(PAGE_ROWS).await?;
        }
        writer.finish().map_err(unwritten)?;
        bar.finish_and_clear();
        match tail {
            Some(tail) => eprintln!("{} records behind {}", bar.position(), tail.records),
            None => eprintln!("{} records", bar.position()),
        }
        Ok(())
    }

    /// Where the file ends that is there; none if there is no file.
    fn tail(&self, format: Format, fields: &Fields) -> Outcome<Option<Tail>> {
        let file = match File::open(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::file("read", &self.file, &error)),
            Ok(file) => BufReader::with_capacity(256 * 1024, file),
        };
        let tail = Tail::of(file, format, fields.clone()).map_err(|what| {
            let path = self.file.display();
            Failure::invalid(format!("{path} is no export that can go on: {what}"))
        })?;
        Ok(Some(tail))
    }

    /// The file, cut behind its last whole record.
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

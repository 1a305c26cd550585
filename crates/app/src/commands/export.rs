//! `credenza export`: writes records to a file.

use super::import::format_of;
use super::range::{Pages, Span, bytes_of};
use super::{Freshness, Place};
use crate::client::encode;
use crate::failure::{Failure, Outcome};
use crate::given::Encoding;
use crate::output;
use crate::records::{Fields, Format, Writer};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  credenza export users.tsv -b users
  credenza export --format jsonl --prefix user: | gzip > users.jsonl.gz
  credenza export all.raw                          the fastest to load again

Rows are read page by page: each page is consistent, but a row that changes meanwhile is seen either
old or new. For one moment of all buckets, see `credenza checkpoint`. Times to live are not
written.";

/// Rows in a page.
const PAGE_ROWS: usize = 5_000;

/// `credenza export`.
#[derive(clap::Args)]
pub struct Export {
    /// The file, which must not exist; `-` is standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The file's format; by default told by its ending (.tsv, .jsonl, .raw), else tsv
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
        let mut pages = Pages::new(self.place.client()?, self.place.path("/range"), query);
        // The first page before the file: a mistake in the request leaves no empty file behind.
        let mut page = pages.next(PAGE_ROWS).await?;
        let to_file = self.file.as_os_str() != "-";
        let file: Box<dyn Write> = match to_file {
            true => Box::new(self.create()?),
            false => Box::new(std::io::stdout().lock()),
        };
        let fields = Fields { key: self.key_field.clone(), value: self.value_field.clone() };
        let mut writer = Writer::new(BufWriter::with_capacity(256 * 1024, file), format, fields);
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
        eprintln!("{} records", bar.position());
        Ok(())
    }

    fn create(&self) -> Outcome<std::fs::File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&self.file).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::invalid(format!("{} exists: name another file", self.file.display()))
            }
            _ => Failure::file("create", &self.file, &error),
        })
    }
}

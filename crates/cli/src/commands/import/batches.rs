//! Input of an import, which a separate thread cuts into batches.

use super::Errors;
use super::resume::InputPosition;
use super::skips::Skips;
use base::Kind;
use base::codec::checksum;
use program::{Failure, Outcome};
use record_files::{Fault, FieldNames, Format, Reader, RecordBatch, raw_record};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Bytes of keys and values at which a batch is closed.
const BATCH_BYTES: usize = 512 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// Records that are sent as one chunk.
pub struct ImportBatch {
    /// Number of its round: rounds count up from 0 without gaps, with one batch for each lane.
    pub number: u64,
    /// The records.
    pub records: RecordBatch,
    /// Number of wrong records among or before them.
    pub skipped: u64,
    /// Position in the input after the round.
    pub end: InputPosition,
}

/// Queues of batches, one for each connection.
pub type Lanes = Vec<mpsc::Sender<ImportBatch>>;

/// Source of the records.
pub struct Input {
    path: PathBuf,
    source: Box<dyn ReadSeek>,
    length: Option<u64>,
}

trait ReadSeek: Read + Send {
    /// Skips this many bytes from the beginning.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

impl ReadSeek for File {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.seek(SeekFrom::Start(bytes)).map(|_| ())
    }
}

impl ReadSeek for io::Stdin {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path) -> Outcome<Input> {
        if path.as_os_str() == "-" {
            let source = Box::new(io::stdin());
            return Ok(Input { path: path.into(), source, length: None });
        }
        let read_failure = |error| Failure::file("read", path, &error);
        let file = File::open(path).map_err(read_failure)?;
        let metadata = file.metadata().map_err(read_failure)?;
        let length = metadata.is_file().then_some(metadata.len());
        Ok(Input { path: path.into(), source: Box::new(file), length })
    }

    /// Returns its length in bytes. `None`: it is not a file.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns its name, as an absolute path so that it means the same in every folder.
    pub fn name(&self) -> String {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        path.display().to_string()
    }
}

/// Format of the input, and the treatment of its records.
pub struct InputFormat {
    /// Its format.
    pub format: Format,
    /// Field names of `jsonl`, column names of `csv`.
    pub fields: FieldNames,
    /// Treatment of a wrong record.
    pub errors: Errors,
    /// Treatment of wrong records that are left out.
    pub skips: Arc<Skips>,
    /// True if a record may have an empty key.
    pub allows_empty_key: bool,
    /// Most records in a batch.
    pub records_max: usize,
}

/// Starts the thread; it ends with the input, at a wrong record (if requested), or when a lane
/// accepts no more batches.
///
/// A key always takes the same lane, and a lane keeps the order of the input: of two records with
/// one key the later value stays.
pub fn read(
    mut input: Input,
    start: InputPosition,
    input_format: InputFormat,
    lanes: Lanes,
) -> Outcome<JoinHandle<Outcome>> {
    let path = input.path.clone();
    let read_failure = |error: io::Error| Failure::file("go on reading", &path, &error);
    // The column names are at the beginning of a CSV file, so they are read even if the import
    // resumes further on.
    let is_csv = input_format.format == Format::Csv;
    if !is_csv {
        input.source.skip(start.offset).map_err(read_failure)?;
    }
    let buffered = BufReader::with_capacity(READ_BYTES, input.source);
    let mut reader = Reader::new(buffered, input_format.format, input_format.fields.clone());
    if is_csv {
        reader.read_head().map_err(|fault| Failure::invalid(fault.text()))?;
        reader.skip_to(start.offset, start.number).map_err(read_failure)?;
    } else {
        reader = reader.at_position(start.offset, start.number);
    }
    input_format.skips.set_head(reader.head());
    let thread = std::thread::Builder::new().name("read".into());
    thread
        .spawn(move || cut_batches(reader, &input_format, &lanes))
        .map_err(|error| Failure::new(Kind::Unavailable, format!("can't start a thread: {error}")))
}

/// A round: one batch for each lane.
struct BatchRound {
    batches: Vec<RecordBatch>,
    skipped: u64,
    end: InputPosition,
}

fn cut_batches<R: BufRead>(
    mut reader: Reader<R>,
    input_format: &InputFormat,
    lanes: &Lanes,
) -> Outcome {
    for number in 0.. {
        let batches = vec![RecordBatch::default(); lanes.len()];
        let mut round = BatchRound { batches, skipped: 0, end: position(&reader) };
        let result = fill(&mut reader, input_format, &mut round);
        let BatchRound { batches, mut skipped, end } = round;
        if skipped > 0 || batches.iter().any(|batch| !batch.is_empty()) {
            for (lane, batch) in lanes.iter().zip(batches) {
                let skipped = std::mem::take(&mut skipped);
                // An error means that this lane has failed; the lane reports its own failure.
                if lane.blocking_send(ImportBatch { number, records: batch, skipped, end }).is_err()
                {
                    return Ok(());
                }
            }
        }
        match result {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Fills a round until one lane's batch is full; returns `false` at the end of the input.
fn fill<R: BufRead>(
    reader: &mut Reader<R>,
    input_format: &InputFormat,
    round: &mut BatchRound,
) -> Outcome<bool> {
    let mut record = RecordBatch::default();
    loop {
        record.clear();
        match reader.read(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(Fault::Record(what)) => {
                input_format.skip_record(reader.number(), &what, &with_line_end(reader.text()))?;
                round.skipped += 1;
            }
            Err(Fault::End(what)) if input_format.format == Format::Csv => {
                return Err(Failure::invalid(what));
            }
            Err(Fault::End(what)) => {
                let text = format!("after record {}: {what}", reader.number());
                return Err(Failure::invalid(text));
            }
        }
        let is_full = input_format.add(&record, reader, round)?;
        round.end = position(reader);
        if is_full {
            return Ok(true);
        }
    }
}

impl InputFormat {
    /// Adds the record that was read, if there is one, to its lane; returns `true` if the lane is
    /// full.
    fn add<R: BufRead>(
        &self,
        record: &RecordBatch,
        reader: &Reader<R>,
        round: &mut BatchRound,
    ) -> Outcome<bool> {
        for (key, value, number) in record.iter() {
            let text = || match self.format {
                Format::Raw => raw_record(key, value).into(),
                _ => with_line_end(reader.text()),
            };
            if key.is_empty() && !self.allows_empty_key {
                self.skip_record(number, "the key is empty (--allow-empty-key takes it)", &text())?;
                round.skipped += 1;
                continue;
            }
            let lane = checksum(key, 0) % round.batches.len() as u64;
            let batch = &mut round.batches[lane as usize];
            batch.push(key, value, number);
            if self.skips.needs_texts() {
                batch.push_text(&text());
            }
            if batch.len() >= self.records_max || batch.bytes() >= BATCH_BYTES {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Skips a wrong record, or fails and ends the import.
    fn skip_record(&self, line: u64, what: &str, text: &[u8]) -> Outcome {
        if self.errors == Errors::Stop {
            // The round ends before this line, so that a resumed import reads it again.
            let text = format!("line {line}: {what}: fix it, or --errors skip");
            return Err(Failure::invalid(text));
        }
        self.skips.report(line, what, text)
    }
}

/// Returns a line with its newline, which the last line of a file may lack.
fn with_line_end(text: &[u8]) -> Cow<'_, [u8]> {
    match text.last() {
        None | Some(b'\n') => text.into(),
        Some(_) => [text, b"\n"].concat().into(),
    }
}

fn position<R: BufRead>(reader: &Reader<R>) -> InputPosition {
    InputPosition { offset: reader.offset(), number: reader.lines() }
}

//! The input, cut into parcels by a thread of its own.

use super::Errors;
use super::resume::Reached;
use crate::failure::{Failure, Outcome};
use crate::records::{Batch, Fault, Fields, Format, Reader};
use base::Kind;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// A parcel is closed when it holds this many bytes of keys and values.
const PARCEL_BYTES: usize = 512 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// Records that travel as one sequence.
pub struct Parcel {
    /// Counts up from 0 without gaps.
    pub number: u64,
    /// The records.
    pub batch: Batch,
    /// Wrong records that stood among or before them.
    pub skipped: u64,
    /// Where the input stands behind them.
    pub end: Reached,
}

/// Where the records come from.
pub struct Input {
    path: PathBuf,
    from: Box<dyn ReadSeek>,
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
            let from = Box::new(io::stdin());
            return Ok(Input { path: path.into(), from, length: None });
        }
        let unread = |error| Failure::file("read", path, &error);
        let file = File::open(path).map_err(unread)?;
        let metadata = file.metadata().map_err(unread)?;
        let length = metadata.is_file().then_some(metadata.len());
        Ok(Input { path: path.into(), from: Box::new(file), length })
    }

    /// Its length, if it is a file.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Its name, made absolute so that it means the same from every folder.
    pub fn name(&self) -> String {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        path.display().to_string()
    }
}

/// How the input is cut.
pub struct Cut {
    /// Its format.
    pub format: Format,
    /// Fields of `jsonl`.
    pub fields: Fields,
    /// At a wrong record.
    pub errors: Errors,
    /// Records in a parcel.
    pub records_max: usize,
}

/// Starts the thread; it ends with the input, at a wrong record (if so asked), or when nobody takes
/// parcels.
pub fn read(
    mut input: Input,
    start: Reached,
    cut: Cut,
    parcels: mpsc::Sender<Parcel>,
) -> Outcome<JoinHandle<Outcome>> {
    let path = input.path.clone();
    input.from.skip(start.offset).map_err(|error| Failure::file("go on reading", &path, &error))?;
    let from = BufReader::with_capacity(READ_BYTES, input.from);
    let reader = Reader::new(from, cut.format, cut.fields.clone());
    let reader = reader.skipped_to(start.offset, start.number);
    let thread = std::thread::Builder::new().name("read".into());
    thread
        .spawn(move || cut_all(reader, &cut, &parcels))
        .map_err(|error| Failure::new(Kind::Unavailable, format!("can't start a thread: {error}")))
}

fn cut_all<R: BufRead>(
    mut reader: Reader<R>,
    cut: &Cut,
    parcels: &mpsc::Sender<Parcel>,
) -> Outcome {
    for number in 0.. {
        let end = reached(&reader);
        let mut parcel = Parcel { number, batch: Batch::default(), skipped: 0, end };
        let ended = fill(&mut reader, cut, &mut parcel);
        let worth = !parcel.batch.is_empty() || parcel.skipped > 0;
        // An error means that all senders have failed; their failure is the one to tell.
        if worth && parcels.blocking_send(parcel).is_err() {
            return Ok(());
        }
        match ended {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Fills a parcel; `false` at the end of the input.
fn fill<R: BufRead>(reader: &mut Reader<R>, cut: &Cut, parcel: &mut Parcel) -> Outcome<bool> {
    while parcel.batch.len() < cut.records_max && parcel.batch.bytes() < PARCEL_BYTES {
        match reader.read(&mut parcel.batch) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(Fault::Record(what)) => {
                let line = reader.number();
                if cut.errors == Errors::Stop {
                    // The parcel ends before this line, so that a resumed import meets it again.
                    let text = format!("line {line}: {what}: mend it, or --errors skip");
                    return Err(Failure::invalid(text));
                }
                eprintln!("credenza: line {line}: {what}: skipped");
                parcel.skipped += 1;
            }
            Err(Fault::End(what)) => {
                let text = format!("after record {}: {what}", reader.number());
                return Err(Failure::invalid(text));
            }
        }
        parcel.end = reached(reader);
    }
    Ok(true)
}

fn reached<R: BufRead>(reader: &Reader<R>) -> Reached {
    Reached { offset: reader.offset(), number: reader.number() }
}

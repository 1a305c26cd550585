//! Resume file of an import: its progress, which survives a kill at any moment.

use super::batches::Input;
use base::BucketName;
use program::{Failure, Outcome};
use record_files::Format;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval of its writes, milliseconds.
const SAVE_MS: u64 = 500;

/// A position in the input, before which all records are acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InputPosition {
    /// Number of bytes.
    pub offset: u64,
    /// Number of records, or of lines.
    pub number: u64,
}

/// Contents of the file: the import it belongs to, and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeFile {
    input: String,
    format: String,
    bucket: String,
    reached: InputPosition,
    /// Number of records left out before that position; absent in files of earlier versions.
    #[serde(default)]
    skipped: u64,
}

/// The resume file, with its contents.
pub struct Resume {
    path: PathBuf,
    kept: ResumeFile,
    skipped_before: u64,
    saved: Instant,
}

impl Resume {
    /// Reads the file, or starts a new one. Fails if it belongs to another import.
    pub fn open(
        path: &Path,
        input: &Input,
        format: Format,
        bucket: &BucketName,
    ) -> Outcome<Resume> {
        let mut kept = ResumeFile {
            input: input.name(),
            format: format!("{format:?}").to_lowercase(),
            bucket: bucket.to_string(),
            reached: InputPosition::default(),
            skipped: 0,
        };
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::file("read", path, &error)),
            Ok(bytes) => {
                (kept.reached, kept.skipped) = reached_of(&bytes, &kept, input.length(), path)?;
            }
        }
        let skipped_before = kept.skipped;
        Ok(Resume { path: path.into(), kept, skipped_before, saved: Instant::now() })
    }

    /// Returns the number of records that earlier runs left out.
    pub fn skipped_before(&self) -> u64 {
        self.skipped_before
    }

    /// Returns the position to go on from.
    pub fn reached(&self) -> InputPosition {
        self.kept.reached
    }

    /// Writes the file unless the last write was less than `SAVE_MS` ago.
    pub fn save_sometimes(&mut self, reached: InputPosition, skipped: u64) -> Outcome {
        if self.saved.elapsed() < Duration::from_millis(SAVE_MS) {
            return Ok(());
        }
        self.save(reached, skipped)
    }

    /// Writes the file: a new file beside it, synced, then renamed over it. `skipped` counts the
    /// records that this run left out.
    pub fn save(&mut self, reached: InputPosition, skipped: u64) -> Outcome {
        self.kept.reached = reached;
        self.kept.skipped = self.skipped_before + skipped;
        self.saved = Instant::now();
        self.write().map_err(|error| Failure::file("write", &self.path, &error))
    }

    fn write(&self) -> io::Result<()> {
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(&self.kept)?)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn reached_of(
    bytes: &[u8],
    ours: &ResumeFile,
    length: Option<u64>,
    path: &Path,
) -> Outcome<(InputPosition, u64)> {
    let path = path.display();
    let found: ResumeFile = serde_json::from_slice(bytes).map_err(|_| {
        Failure::invalid(format!("{path} is no resume file: remove it, or name another"))
    })?;
    let (reached, skipped) = (found.reached, found.skipped);
    let same = found == ResumeFile { reached, skipped, ..ours.clone() };
    if !same || length.is_some_and(|length| reached.offset > length) {
        let (input, bucket) = (found.input, found.bucket);
        let text = format!("{path} remembers another import ({input} to {bucket}): name another");
        return Err(Failure::invalid(text));
    }
    Ok((reached, skipped))
}

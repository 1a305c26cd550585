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

/// Interval of writes of the resume file, milliseconds.
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
    contents: ResumeFile,
    skipped_before: u64,
    saved_at: Instant,
}

impl Resume {
    /// Reads the file, or starts a new one. Fails if it belongs to another import.
    pub fn open(
        path: &Path,
        input: &Input,
        format: Format,
        bucket: &BucketName,
    ) -> Outcome<Resume> {
        let mut contents = ResumeFile {
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
                (contents.reached, contents.skipped) =
                    parse_resume_file(&bytes, &contents, input.length(), path)?;
            }
        }
        let skipped_before = contents.skipped;
        Ok(Resume { path: path.into(), contents, skipped_before, saved_at: Instant::now() })
    }

    /// Returns the number of records that earlier runs left out.
    pub fn skipped_before(&self) -> u64 {
        self.skipped_before
    }

    /// Returns the position to go on from.
    pub fn position(&self) -> InputPosition {
        self.contents.reached
    }

    /// Writes the file unless the last write was less than `SAVE_MS` ago.
    pub fn save_if_due(&mut self, reached: InputPosition, skipped: u64) -> Outcome {
        if self.saved_at.elapsed() < Duration::from_millis(SAVE_MS) {
            return Ok(());
        }
        self.save(reached, skipped)
    }

    /// Writes the file: a new file beside it, synced, then renamed over it. `skipped` counts the
    /// records that this run left out.
    pub fn save(&mut self, reached: InputPosition, skipped: u64) -> Outcome {
        self.contents.reached = reached;
        self.contents.skipped = self.skipped_before + skipped;
        self.saved_at = Instant::now();
        self.write().map_err(|error| Failure::file("write", &self.path, &error))
    }

    fn write(&self) -> io::Result<()> {
        let mut temporary_path = self.path.clone().into_os_string();
        temporary_path.push(".new");
        let mut file = File::create(&temporary_path)?;
        file.write_all(&serde_json::to_vec_pretty(&self.contents)?)?;
        file.sync_all()?;
        fs::rename(&temporary_path, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn parse_resume_file(
    bytes: &[u8],
    expected: &ResumeFile,
    length: Option<u64>,
    path: &Path,
) -> Outcome<(InputPosition, u64)> {
    let path = path.display();
    let contents: ResumeFile = serde_json::from_slice(bytes).map_err(|_| {
        Failure::invalid(format!("{path} is no resume file: remove it, or name another"))
    })?;
    let (reached, skipped) = (contents.reached, contents.skipped);
    let is_same_import = contents == ResumeFile { reached, skipped, ..expected.clone() };
    if !is_same_import || length.is_some_and(|length| reached.offset > length) {
        let (input, bucket) = (contents.input, contents.bucket);
        let text = format!("{path} remembers another import ({input} to {bucket}): name another");
        return Err(Failure::invalid(text));
    }
    Ok((reached, skipped))
}

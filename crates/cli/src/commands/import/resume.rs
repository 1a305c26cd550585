//! Resume file of an import: how far it got, also after a kill at any moment.

use super::parcels::Input;
use crate::records::Format;
use base::BucketName;
use program::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often it is written.
const SAVE_MS: u64 = 500;

/// A place in the input: everything before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InputPosition {
    /// Bytes.
    pub offset: u64,
    /// Records, or lines.
    pub number: u64,
}

/// What the file holds: whose progress it is, and the progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeFile {
    input: String,
    format: String,
    bucket: String,
    reached: InputPosition,
    /// Records left out before that; files of earlier versions do not say.
    #[serde(default)]
    skipped: u64,
}

/// The file.
pub struct Resume {
    path: PathBuf,
    kept: ResumeFile,
    skipped_before: u64,
    saved: Instant,
}

impl Resume {
    /// Reads it, or begins a new one. One that tells of another import is refused.
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

    /// Records that earlier runs left out.
    pub fn skipped_before(&self) -> u64 {
        self.skipped_before
    }

    /// Where to go on.
    pub fn reached(&self) -> InputPosition {
        self.kept.reached
    }

    /// Writes it unless that was done a moment ago.
    pub fn save_sometimes(&mut self, reached: InputPosition, skipped: u64) -> Outcome {
        if self.saved.elapsed() < Duration::from_millis(SAVE_MS) {
            return Ok(());
        }
        self.save(reached, skipped)
    }

    /// Writes it: a new file beside it, synced, put in its place. `skipped` counts the records that
    /// this run left out.
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

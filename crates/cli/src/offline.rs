//! Verification and copy of data directories that no node has open, with the store's own tools.

use base::Kind;
use indicatif::{ProgressBar, ProgressStyle};
use program::{Failure, Outcome};
use rustix::fs::OFlags;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::check::{Damage, TreeReport, check_trees};
use store::log::LogReport;
use store::{DataDir, FileDisk, StoreError};

/// File that marks a data directory. It is copied last, so that a partial copy is not accepted as a
/// data directory.
const IDENTITY: &str = "IDENTITY";
/// Further files of a cluster member.
const MEMBERSHIP: [&str; 3] = ["MEMBERS", "JOINER", "SECRET"];

/// Result of verifying a data directory.
#[derive(Debug)]
pub struct DirectoryReport {
    /// Report on the transaction log.
    pub log: LogReport,
    /// Report on the store.
    pub trees: TreeReport,
    /// All damage in both, and in the small files.
    pub damage: Vec<Damage>,
}

/// Opens an existing data directory to read it, and locks it against writers. Changes nothing in
/// it: a read-only copy can be verified, too.
pub fn open(path: &Path) -> Outcome<DataDir> {
    let exists = |name: &str| path.join(name).symlink_metadata().is_ok();
    if !exists(IDENTITY) && !exists("log") {
        let text = format!("{} is no data directory (it has no {IDENTITY})", path.display());
        return Err(Failure::invalid(text));
    }
    DataDir::open_to_read(path).map_err(failure)
}

/// Reads all files without changing them. Returns the damage that it found.
pub fn verify(data: &DataDir) -> Outcome<DirectoryReport> {
    let lost: Vec<_> = [data.log(), data.store()].iter().filter_map(|it| lost_folder(it)).collect();
    if !lost.is_empty() {
        let (log, trees) = (LogReport::default(), TreeReport::default());
        return Ok(DirectoryReport { log, trees, damage: lost });
    }
    let bar = bar("log");
    let log = FileDisk::open(&data.log()).map_err(failure)?;
    let log = store::log::verify(&log, &mut |progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
    });
    let log = log.map_err(failure)?;
    bar.set_message("store");
    let trees = check_trees(&data.store(), &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    let trees = trees.map_err(failure)?;
    bar.finish_and_clear();
    let bad = log.segments.iter().filter_map(|segment| {
        let bad = segment.first_bad_frame.as_ref()?;
        let file = data.log().join(&segment.file).display().to_string();
        Some(Damage { file, offset: bad.offset, description: bad.description.clone() })
    });
    let mut damage: Vec<_> = bad.chain(trees.damage.iter().cloned()).collect();
    damage.extend(check_small_files(data)?);
    Ok(DirectoryReport { log, trees, damage })
}

/// Returns the damage if a folder is missing: a copy may have lost it.
fn lost_folder(folder: &Path) -> Option<Damage> {
    let is_there = folder.symlink_metadata().is_ok();
    let (file, description) = (folder.display().to_string(), "the folder is missing".to_string());
    (!is_there).then_some(Damage { file, offset: 0, description })
}

/// Returns the damage in the small files. Without them no node starts, even with an intact log.
fn check_small_files(data: &DataDir) -> Outcome<Vec<Damage>> {
    let mut damage = Vec::new();
    let members = data.members().map(|_| ());
    let (incarnations, secret) = (data.incarnations().map(|_| ()), data.secret().map(|_| ()));
    for read in [members, incarnations, secret, data.check_log()] {
        match read {
            Ok(()) => {}
            Err(StoreError::Corrupt { file, offset, description }) => {
                damage.push(Damage { file, offset, description });
            }
            Err(error) => return Err(failure(error)),
        }
    }
    Ok(damage)
}

/// Checks that a directory does not exist or is empty.
pub fn check_empty(path: &Path) -> Outcome {
    match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::file("use", path, &error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                Err(Failure::invalid(format!("{} is not empty: name another", path.display())))
            }
        },
    }
}

/// Copies a locked data directory to an empty place and syncs it. Returns the number of bytes
/// copied.
pub fn copy(from: &DataDir, to: &Path) -> Outcome<u64> {
    let bar = bar("copy");
    let result = copy_all(from, to, &bar);
    bar.finish_and_clear();
    result.map_err(|(path, error)| Failure::file("copy", &path, &error))
}

type CopyResult = Result<u64, (PathBuf, io::Error)>;

fn copy_all(from: &DataDir, to: &Path, bar: &ProgressBar) -> CopyResult {
    let mut bytes = 0;
    for folder in [from.log(), from.store()] {
        let name = folder.file_name().expect("`log` and `store` are names");
        bytes += copy_folder(&folder, &to.join(name), bar)?;
    }
    for name in MEMBERSHIP {
        let file = from.path.join(name);
        if file.symlink_metadata().is_ok() {
            bytes += copy_file(&file, &to.join(name), bar)?;
        }
    }
    bytes += copy_file(&from.path.join(IDENTITY), &to.join(IDENTITY), bar)?;
    sync(to)?;
    // Sync the parent folder, too: the new directory's name must be durable.
    let absolute = to.canonicalize().map_err(|error| (to.into(), error))?;
    sync(absolute.parent().unwrap_or(Path::new("/")))?;
    Ok(bytes)
}

fn copy_folder(from: &Path, to: &Path, bar: &ProgressBar) -> CopyResult {
    let with_path = |path: &Path| {
        let path = path.to_path_buf();
        move |error| (path.clone(), error)
    };
    DirBuilder::new().recursive(true).mode(0o700).create(to).map_err(with_path(to))?;
    let mut bytes = 0;
    for entry in fs::read_dir(from).map_err(with_path(from))? {
        let entry = entry.map_err(with_path(from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(with_path(&path))?;
        bytes += if kind.is_dir() {
            copy_folder(&path, &target, bar)?
        } else if kind.is_file() {
            copy_file(&path, &target, bar)?
        } else {
            let error = io::Error::new(ErrorKind::InvalidInput, "it is neither file nor folder");
            return Err((path, error));
        };
    }
    sync(to)?;
    Ok(bytes)
}

fn copy_file(from: &Path, to: &Path, bar: &ProgressBar) -> CopyResult {
    let copy = || {
        // Never through a link, and without waiting for the other end of a pipe.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut source =
            OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(from)?;
        if !source.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
        let bytes = io::copy(&mut source, &mut target)?;
        target.sync_all()?;
        Ok(bytes)
    };
    let bytes = copy().map_err(|error| (from.to_path_buf(), error))?;
    bar.inc(bytes);
    Ok(bytes)
}

fn sync(folder: &Path) -> Result<(), (PathBuf, io::Error)> {
    let result = File::open(folder).and_then(|folder| folder.sync_all());
    result.map_err(|error| (folder.into(), error))
}

fn bar(label: &'static str) -> ProgressBar {
    let template = "{msg:10} {wide_bar} {bytes}/{total_bytes}  {elapsed}";
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    ProgressBar::new(0).with_style(style).with_message(label)
}

/// Converts an error of the store into a failure of the command, with the remedy.
pub fn failure(error: StoreError) -> Failure {
    let kind = match &error {
        StoreError::Io { .. } | StoreError::Version { .. } | StoreError::Level { .. } => {
            Kind::Invalid
        }
        StoreError::Corrupt { .. } => Kind::Corrupt,
        StoreError::Full | StoreError::Closed => Kind::Unavailable,
        StoreError::Locked { .. } => {
            let text = format!("{error}: stop the node first, or take a checkpoint and use that");
            return Failure::new(Kind::Unavailable, text);
        }
    };
    Failure::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn restore_copies_no_file_through_a_link() {
        let root = std::env::temp_dir().join(format!("offline-links-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let from = root.join("backup");
        fs::create_dir_all(&root).expect("ours");
        drop(DataDir::open(&from).expect("makes"));
        let data = open(&from).expect("opens");
        fs::write(root.join("private"), "not part of the backup").expect("ours");
        copy(&data, &root.join("sound")).expect("copies");
        for name in MEMBERSHIP {
            symlink(root.join("private"), from.join(name)).expect("ours");
            let to = root.join(format!("copy-{name}"));
            let refused = copy(&data, &to).expect_err(name).to_string();
            assert!(refused.contains(name), "{refused}");
            assert!(!to.join(name).exists() && !to.join(IDENTITY).exists(), "{name}");
            fs::remove_file(from.join(name)).expect("ours");
        }
        fs::remove_dir_all(&root).expect("ours");
    }

    #[test]
    fn verification_reports_a_missing_folder_and_changes_nothing() {
        let root = std::env::temp_dir().join(format!("offline-reads-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        drop(DataDir::open(&root).expect("makes"));
        let names = || {
            let entries = fs::read_dir(&root).expect("lists");
            let mut names: Vec<_> =
                entries.map(|entry| entry.expect("lists").file_name()).collect();
            names.sort();
            names
        };
        fs::remove_file(root.join("LOCK")).expect("ours");
        fs::remove_dir(root.join("log")).expect("ours");
        let before = names();
        let report = verify(&open(&root).expect("opens")).expect("reads");
        assert_eq!(report.damage.len(), 1, "{report:?}");
        assert!(report.damage[0].file.ends_with("log"), "{report:?}");
        assert_eq!(names(), before);
        fs::remove_dir_all(&root).expect("ours");
    }
}

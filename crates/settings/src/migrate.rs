//! Migration of a settings file to the current names of settings.
//!
//! It replaces only keys. Comments, order and values stay byte for byte.

use crate::TABLE;
use crate::file::{line_of, parse_table, unknown_key_message};
use crate::renames::current_name;
use program::{Failure, Outcome};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Key that is renamed.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyRename {
    /// Number of the key's line, from 1.
    pub line: usize,
    /// Former name.
    pub from: String,
    /// Current name.
    pub to: &'static str,
}

/// Renames the keys of a file that have a former name, atomically. Returns the renamed keys in the
/// order of the lines. A file without such keys is not written.
pub fn migrate(path: &Path) -> Outcome<Vec<KeyRename>> {
    // A symbolic link stays: its target is replaced.
    let target = path.canonicalize().map_err(|error| Failure::file("read", path, &error))?;
    let text = fs::read_to_string(&target).map_err(|error| Failure::file("read", path, &error))?;
    let (text, renames) = renamed(&text)
        .map_err(|(line, what)| Failure::invalid(format!("{}:{line}: {what}", path.display())))?;
    if !renames.is_empty() {
        replace(&target, &text).map_err(|error| Failure::file("write", path, &error))?;
    }
    Ok(renames)
}

/// Returns the text with current names, and the renamed keys.
fn renamed(text: &str) -> Result<(String, Vec<KeyRename>), (usize, String)> {
    let mut keys: Vec<(Range<usize>, KeyRename)> = Vec::new();
    let table = parse_table(text)?;
    let has = |name: &str| table.keys().any(|key| key.get_ref() == name);
    for key in table.keys() {
        let line = line_of(text, key.span().start);
        let from = key.get_ref().to_string();
        if TABLE.iter().any(|row| row.name == from) {
            continue;
        }
        let Some(to) = current_name(&from) else { return Err((line, unknown_key_message(&from))) };
        if has(to) {
            let message = format!("`{from}` is now called `{to}`, and both are set: remove one");
            return Err((line, message));
        }
        keys.push((key.span(), KeyRename { line, from, to }));
    }
    keys.sort_by_key(|(span, _)| span.start);
    let mut changed = text.to_string();
    for (span, rename) in keys.iter().rev() {
        changed.replace_range(span.clone(), rename.to);
    }
    Ok((changed, keys.into_iter().map(|(_, rename)| rename).collect()))
}

/// Replaces a file's text and keeps its mode and owner. After a crash the file has either the old
/// text or the new one, complete.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary_path = folder.join(format!(".{name}.{}", std::process::id()));
    let result =
        write_as(path, &temporary_path, text).and_then(|()| fs::rename(&temporary_path, path));
    if let Err(error) = result {
        let _ = fs::remove_file(&temporary_path);
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

fn write_as(path: &Path, temporary_path: &Path, text: &str) -> io::Result<()> {
    let original = path.metadata()?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary_path)?;
    file.write_all(text.as_bytes())?;
    // Keep the owner: a node that runs as another user could not read the file any more.
    let metadata = file.metadata()?;
    if (metadata.uid(), metadata.gid()) != (original.uid(), original.gid()) {
        fchown(&file, Some(original.uid()), Some(original.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(original.mode() & 0o7777))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMER: &str = "\
# Node of the shop.
data = \"/srv/credenza\"   # the disk under /srv
\"node\" = 'n1'
listen = \"127.0.0.1:7711\"

# node = \"n2\"
repair = false # see the run book
";

    #[test]
    fn migration_renames_keys_and_preserves_every_other_byte() {
        let path = std::env::temp_dir().join(format!("credenza-migrate-{}", std::process::id()));
        fs::write(&path, FORMER).expect("a file in the temporary directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("own file");
        let changed = migrate(&path).expect("it is rewritten");
        let lines: Vec<_> =
            changed.iter().map(|rename| (rename.line, &*rename.from, rename.to)).collect();
        assert_eq!(
            lines,
            [(2, "data", "data_dir"), (3, "node", "name"), (7, "repair", "auto_repair")]
        );
        let text = fs::read_to_string(&path).expect("it is there");
        let expected = FORMER
            .replace("data = \"/srv", "data_dir = \"/srv")
            .replace("\"node\" =", "name =")
            .replace("repair = false", "auto_repair = false");
        assert_eq!(text, expected);
        assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o640);
        let inode = path.metadata().expect("it is there").ino();
        assert!(migrate(&path).expect("it is read").is_empty(), "nothing is left to rename");
        assert_eq!(path.metadata().expect("it is there").ino(), inode, "it was written again");
        fs::remove_file(path).expect("written above");
    }

    #[test]
    fn config_with_both_names_or_unknown_setting_is_refused() {
        let error_of = |text: &str| renamed(text).expect_err("refused");
        assert_eq!(
            error_of("node = \"a\"\nname = \"b\"\n"),
            (1, "`node` is now called `name`, and both are set: remove one".into())
        );
        let (line, what) = error_of("\nlog_bites = 3\n");
        assert!(line == 2 && what.contains("unknown setting `log_bites`"), "{what}");
        assert_eq!(error_of("name = \n").0, 1);
    }
}

//! Migration of a settings file to the current names of settings.
//!
//! It replaces only keys. Comments, order and values stay byte for byte.

use super::TABLE;
use super::file::{line_of, parse_table, unknown};
use super::renames::current_name;
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
        let Some(to) = current_name(&from) else { return Err((line, unknown(&from))) };
        if has(to) {
            let what = format!("`{from}` is now called `{to}`, and both are set: remove one");
            return Err((line, what));
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
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    let written = write_as(path, &beside, text).and_then(|()| fs::rename(&beside, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

fn write_as(path: &Path, beside: &Path, text: &str) -> io::Result<()> {
    let before = path.metadata()?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    file.write_all(text.as_bytes())?;
    // Keep the owner: a node that runs as another user could not read the file any more.
    let made = file.metadata()?;
    if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
        fchown(&file, Some(before.uid()), Some(before.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(before.mode() & 0o7777))?;
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
    fn keys_are_renamed_and_every_other_byte_stays() {
        let path = std::env::temp_dir().join(format!("credenza-migrate-{}", std::process::id()));
        fs::write(&path, FORMER).expect("a file in the temporary directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("own file");
        let changed = migrate(&path).expect("it is rewritten");
        let lines: Vec<_> = changed.iter().map(|it| (it.line, &*it.from, it.to)).collect();
        assert_eq!(
            lines,
            [(2, "data", "data_dir"), (3, "node", "name"), (7, "repair", "auto_repair")]
        );
        let text = fs::read_to_string(&path).expect("it is there");
        let wanted = FORMER
            .replace("data = \"/srv", "data_dir = \"/srv")
            .replace("\"node\" =", "name =")
            .replace("repair = false", "auto_repair = false");
        assert_eq!(text, wanted);
        assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o640);
        let inode = path.metadata().expect("it is there").ino();
        assert!(migrate(&path).expect("it is read").is_empty(), "nothing is left to rename");
        assert_eq!(path.metadata().expect("it is there").ino(), inode, "it was written again");
        fs::remove_file(path).expect("written above");
    }

    #[test]
    fn a_file_with_both_names_of_a_setting_or_an_unknown_one_is_refused() {
        let said = |text: &str| renamed(text).expect_err("refused");
        assert_eq!(
            said("node = \"a\"\nname = \"b\"\n"),
            (1, "`node` is now called `name`, and both are set: remove one".into())
        );
        let (line, what) = said("\nlog_bites = 3\n");
        assert!(line == 2 && what.contains("unknown setting `log_bites`"), "{what}");
        assert_eq!(said("name = \n").0, 1);
    }
}

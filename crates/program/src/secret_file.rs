//! Files that hold a secret: a token or a password. Only their owner may have access to them.

use crate::{Failure, Outcome};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Permission bits of all users but the file's owner.
const NON_OWNER_BITS: u32 = 0o077;

/// Reads the beginning of a file with a secret. `name`: the setting or flag that names the file;
/// `secret`: what it holds, for errors, which never repeat it. The text is wiped when it is
/// dropped.
///
/// Errors: `Denied` if others may have read or replaced it.
pub fn read(
    name: &str,
    path: &Path,
    (secret, bytes_max): (&str, usize),
) -> Outcome<Zeroizing<Vec<u8>>> {
    let read_failure = |error| Failure::file("read", path, &error);
    let mut file = File::open(path).map_err(read_failure)?;
    let metadata = file.metadata().map_err(read_failure)?;
    let (mode, owner) = (metadata.permissions().mode(), metadata.uid());
    let denied = |text: String| Failure::new(base::Kind::Denied, text);
    let shown = path.display();
    if !is_trusted_owner(owner) {
        return Err(denied(format!(
            "{name} {shown}: it belongs to another user (uid {owner}), who can read and replace \
             it: chown it, and make another {secret}"
        )));
    }
    if mode & NON_OWNER_BITS != 0 {
        return Err(denied(format!(
            "{name} {shown}: other users can read it (mode {:03o}): chmod 600 {shown}, and make \
             another {secret} if they did",
            mode & 0o777
        )));
    }
    // In one piece: a text that grows would leave parts of it behind.
    let mut text = Zeroizing::new(vec![0; bytes_max]);
    let length = read_start(&mut file, &mut text).map_err(read_failure)?;
    text.truncate(length);
    Ok(text)
}

/// Returns true for this process' user and for root, who can read every file anyway.
fn is_trusted_owner(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Fills the buffer with the beginning of a file. Returns the number of bytes.
fn read_start(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;

    /// Makes a file of this mode in the folder of scratch files.
    fn file(name: &str, mode: u32, text: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        made.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        path
    }

    #[test]
    fn file_of_another_user_is_refused() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_trusted_owner(own) && is_trusted_owner(0));
        assert!(!is_trusted_owner(own + 1) || own + 1 == 0);
        let foreign = file("foreign", 0o600, "secret");
        // Only root can give a file away.
        if own == 0 {
            std::os::unix::fs::chown(&foreign, Some(own + 1), None).expect("root may");
            let refused = read("the flag", &foreign, ("token", 64)).map(drop);
            let words = refused.expect_err("of another user").to_string();
            assert!(words.contains("another user (uid 1)") && !words.contains("secret"), "{words}");
        }
    }

    #[test]
    fn no_more_is_read_than_a_secret_may_have() {
        let long = file("long-secret", 0o600, &"x".repeat(100));
        let text = read("the flag", &long, ("password", 64)).expect("it is ours");
        assert_eq!(text.len(), 64);
    }
}

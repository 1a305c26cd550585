//! Digests of keys in the audit log: keyed BLAKE3, so that nobody who has lines of the log alone
//! can try keys.
//!
//! The key of the digests is drawn once for a folder and lies in it: whoever may read the data
//! directory may also look a key up.

use crate::folder;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Name of the file with the key of the digests.
const FILE: &str = "digest-key";
/// Size of that key in bytes.
const KEY_BYTES: usize = 32;
/// Size of a digest in bytes.
const DIGEST_BYTES: usize = 16;

/// Digests of keys under the key of a folder.
pub struct KeyDigests([u8; KEY_BYTES]);

impl KeyDigests {
    /// Returns digests under this key.
    pub(crate) fn new(key: [u8; KEY_BYTES]) -> KeyDigests {
        KeyDigests(key)
    }

    /// Reads the folder's key. Errors: there is none, or it is damaged.
    pub fn open(folder: &Path) -> io::Result<KeyDigests> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(folder.join(FILE))?;
        let mut bytes = Vec::new();
        file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        let key = bytes.try_into().map_err(|_| {
            let text = format!("{FILE} is damaged: remove it, and a new one is made");
            io::Error::new(ErrorKind::InvalidData, text)
        })?;
        Ok(KeyDigests(key))
    }

    /// Reads the folder's key, or makes this one the folder's key.
    pub(crate) fn open_or_create(folder: &Path, key: [u8; KEY_BYTES]) -> io::Result<KeyDigests> {
        match KeyDigests::open(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        folder::create(folder)?;
        // Under another name first: a crash must not leave half of it.
        let (path, draft) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file: File = options.write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(&key)?;
        file.sync_all()?;
        std::fs::rename(&draft, &path)?;
        folder::sync(folder)?;
        Ok(KeyDigests(key))
    }

    /// Returns the digest of a key in a bucket, as hexadecimal digits.
    pub fn digest(&self, bucket: &str, key: &[u8]) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(bucket.len() as u64).to_le_bytes());
        hasher.update(bucket.as_bytes()).update(key);
        let digest = hasher.finalize();
        digest.as_bytes()[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

//! Files of certificates and keys, read and checked.

use crate::settings::TlsSettings;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Largest file, bytes: room for a bundle of some hundred authorities, or a long list of revoked
/// certificates.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Permission bits of all users but the file's owner.
const NON_OWNER_BITS: u32 = 0o077;

/// Contents of the files, and their names for error messages.
#[derive(PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) certificate: SourceFile,
    pub(crate) key: SourceFile,
    pub(crate) authorities: Option<SourceFile>,
    pub(crate) revoked: Option<SourceFile>,
}

/// Content of one file.
#[derive(PartialEq, Eq)]
pub(crate) struct SourceFile {
    /// Setting that names the file.
    setting: &'static str,
    path: PathBuf,
    pub(crate) pem: Zeroizing<Vec<u8>>,
}

impl SourceFile {
    /// Returns an error text about this file.
    pub(crate) fn failure(&self, what: &str) -> String {
        format!("{} = {}: {what}", self.setting, self.path.display())
    }
}

impl Sources {
    /// Reads the files that the settings name. Fails with the setting and the remedy.
    pub(crate) fn read(settings: &TlsSettings) -> Result<Sources, String> {
        let required = |setting, path: &Option<PathBuf>| {
            path.clone().ok_or_else(|| {
                format!("TLS needs `{setting}`: make the files with `credenza cert`")
            })
        };
        let certificate = required("tls_cert_file", &settings.certificate)?;
        let key = required("tls_key_file", &settings.key)?;
        if settings.verifies_others() {
            required("tls_ca_file", &settings.authorities)?;
        }
        let optional = |setting, path: &Option<PathBuf>| {
            path.as_deref().map(|path| read(setting, path, false)).transpose()
        };
        Ok(Sources {
            certificate: read("tls_cert_file", &certificate, false)?,
            key: read("tls_key_file", &key, true)?,
            authorities: optional("tls_ca_file", &settings.authorities)?,
            revoked: optional("tls_crl_file", &settings.revoked)?,
        })
    }
}

/// Reads a file. `is_secret`: only its owner, this user or root, may have access to it.
pub(crate) fn read(
    setting: &'static str,
    path: &Path,
    is_secret: bool,
) -> Result<SourceFile, String> {
    let failure = |what: &str| format!("{setting} = {}: {what}", path.display());
    let file = File::open(path).map_err(|error| failure(&error.to_string()))?;
    // The open file is checked, not its name, which may mean another file by then.
    let metadata = file.metadata().map_err(|error| failure(&error.to_string()))?;
    if is_secret {
        let own = rustix::process::geteuid().as_raw();
        if ![0, own].contains(&metadata.uid()) {
            return Err(failure("it belongs to another user: change its owner"));
        }
        if metadata.mode() & NON_OWNER_BITS != 0 {
            return Err(failure("other users can read or change it: `chmod 600` it"));
        }
    }
    // In one piece: a text that grows would leave parts of it behind.
    let bytes = metadata.len().min(FILE_BYTES_MAX) as usize + 1;
    let mut pem = Zeroizing::new(Vec::with_capacity(bytes));
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut pem);
    read.map_err(|error| failure(&error.to_string()))?;
    if pem.len() as u64 > FILE_BYTES_MAX {
        return Err(failure(&format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(SourceFile { setting, path: path.into(), pem })
}

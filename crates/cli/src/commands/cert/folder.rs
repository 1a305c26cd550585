//! Folder of a certificate authority: its certificate and key, the certificates that it made, the
//! record of them, and the list of the revoked ones.

use program::{Failure, Outcome};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tls::authority::{Authority, IssuedCertificate, Revocation};

/// Record of the certificates: a line for each.
const RECORD: &str = "issued";
/// List of revoked certificates.
const LIST: &str = "crl.pem";
const PUBLIC: u32 = 0o644;
const SECRET: u32 = 0o600;

/// Folder of an authority.
pub struct CertificateFolder {
    path: PathBuf,
}

/// Certificate that the authority made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedRecord {
    /// Serial number, in hexadecimal.
    pub serial: String,
    /// Name and purpose.
    pub subject: String,
    /// End of its validity, seconds since 1970.
    pub not_after_s: u64,
    /// Time of its revocation. `None`: it is not revoked.
    pub revoked_s: Option<u64>,
}

impl IssuedRecord {
    fn line(&self) -> String {
        let revoked = self.revoked_s.map_or_else(|| "-".into(), |seconds| seconds.to_string());
        format!("{} {} {} {revoked}\n", self.serial, self.subject, self.not_after_s)
    }

    fn parse(line: &str) -> Option<IssuedRecord> {
        let mut words = line.split(' ');
        let (serial, subject) = (words.next()?.to_string(), words.next()?.to_string());
        let not_after_s = words.next()?.parse().ok()?;
        let revoked_s = match words.next()? {
            "-" => None,
            seconds => Some(seconds.parse().ok()?),
        };
        words.next().is_none().then_some(IssuedRecord { serial, subject, not_after_s, revoked_s })
    }
}

impl CertificateFolder {
    /// Creates the folder, which only its owner may enter.
    pub fn create(path: &Path) -> Outcome<CertificateFolder> {
        let created = DirBuilder::new().mode(0o700).create(path);
        created.map_err(|error| Failure::file("make", path, &error))?;
        Ok(CertificateFolder { path: path.into() })
    }

    /// Opens the folder of an existing authority.
    pub fn open(path: &Path) -> Outcome<CertificateFolder> {
        let folder = CertificateFolder { path: path.into() };
        if !folder.path("ca.crt").exists() {
            let text = format!(
                "{} holds no authority: make one with `credenza cert init`, or name it with --dir",
                path.display()
            );
            return Err(Failure::invalid(text));
        }
        Ok(folder)
    }

    /// Returns the path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file as text.
    pub fn read(&self, name: &str) -> Outcome<String> {
        let path = self.path(name);
        fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error))
    }

    /// Writes the files of a new authority, with an empty list of revoked certificates.
    pub fn create_authority(&self, authority: &Authority, passphrase: Option<&str>) -> Outcome {
        let failure = |error: base::Error| Failure::invalid(error.text());
        let key = authority.key(passphrase).map_err(failure)?;
        write(&self.path("ca.key"), key.as_bytes(), SECRET)?;
        let list = authority.revocation_list(&[], 0, SystemTime::now()).map_err(failure)?;
        write(&self.path(LIST), list.as_bytes(), PUBLIC)?;
        write(&self.path(RECORD), b"", SECRET)?;
        let certificate = authority.certificate().map_err(failure)?;
        // Last: with this file the authority exists.
        write(&self.path("ca.crt"), certificate.as_bytes(), PUBLIC)
    }

    /// Returns all certificates that were made.
    pub fn records(&self) -> Outcome<Vec<IssuedRecord>> {
        let text = self.read(RECORD)?;
        let records: Option<Vec<_>> = text.lines().map(IssuedRecord::parse).collect();
        records.ok_or_else(|| {
            Failure::invalid(format!("{}: a line is malformed", self.path(RECORD).display()))
        })
    }

    /// Adds a certificate.
    pub fn record(&self, record: IssuedRecord) -> Outcome {
        let mut records = self.records()?;
        records.push(record);
        self.write_records(&records)
    }

    /// Revokes the certificate of this number, and writes the list of all revoked ones. Returns
    /// whose it was.
    pub fn revoke(&self, serial: &str, authority: &Authority, now_s: u64) -> Outcome<String> {
        let mut records = self.records()?;
        let Some(record) = records.iter_mut().find(|record| record.serial == serial) else {
            let text = format!("this authority made no certificate `{serial}`; see `cert show`");
            return Err(Failure::invalid(text));
        };
        record.revoked_s.get_or_insert(now_s);
        let subject = record.subject.clone();
        let revoked: Vec<_> = records
            .iter()
            .filter_map(|record| {
                Some(Revocation { serial: record.serial.clone(), revoked_s: record.revoked_s? })
            })
            .collect();
        let list = authority.revocation_list(&revoked, now_s, SystemTime::now());
        let list = list.map_err(|error| Failure::invalid(error.text()))?;
        self.write_records(&records)?;
        write(&self.path(LIST), list.as_bytes(), PUBLIC)?;
        Ok(subject)
    }

    fn write_records(&self, records: &[IssuedRecord]) -> Outcome {
        let text: String = records.iter().map(IssuedRecord::line).collect();
        write(&self.path(RECORD), text.as_bytes(), SECRET)
    }
}

/// Writes a certificate, and its key beside it: first the key, so that a node which reads in
/// between finds a pair that does not match, keeps its former one and reads again.
pub fn write_pair(path: &Path, issued: &IssuedCertificate) -> Outcome {
    write(&path.with_extension("key"), issued.key.as_bytes(), SECRET)?;
    write(path, issued.certificate.as_bytes(), PUBLIC)
}

/// Writes a file as a whole: readers find the former content or the new one.
fn write(path: &Path, bytes: &[u8], mode: u32) -> Outcome {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let written = (|| {
        let _ = fs::remove_file(&temporary);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    written.map_err(|error: std::io::Error| Failure::file("write", path, &error))
}

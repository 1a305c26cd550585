//! Tests of the authority's folder: what is made, renewed, revoked and checked.

use super::folder::CertificateFolder;
use super::*;
use clap::Parser;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

#[derive(Parser)]
struct CertCommandLine {
    #[command(subcommand)]
    command: CertCommand,
}

/// Runs a command in a folder; `@` in a word stands for the folder.
fn run(folder: &TempDir, words: &str) -> Result<(), String> {
    let folder = folder.path().display().to_string();
    let words = words.split(' ').map(|word| word.replace('@', &folder));
    let line = CertCommandLine::try_parse_from(std::iter::once("cert".into()).chain(words));
    let command = line.map_err(|error| error.to_string())?.command;
    command.run().map_err(|failure| failure.to_string())
}

fn facts(folder: &TempDir, name: &str) -> CertificateFacts {
    CertificateFacts::read_file(&folder.path().join(name)).expect("a certificate")
}

#[test]
fn certificates_are_made_renewed_revoked_and_checked() {
    let folder = TempDir::new().expect("a scratch folder");
    assert_eq!(run(&folder, "init @/ca --cluster shop --plain"), Ok(()));
    assert!(run(&folder, "init @/ca --plain").is_err(), "it exists");
    let node = "node n1 --host db1.example.org,10.0.0.1 --dir @/ca";
    assert_eq!(run(&folder, node), Ok(()));
    assert!(run(&folder, node).is_err_and(|text| text.contains("cert renew")));
    assert_eq!(run(&folder, "client alice --days 30 --dir @/ca"), Ok(()));
    let before = facts(&folder, "ca/n1.node.crt");
    assert_eq!(before.dns_names[1], "db1.example.org");
    for name in ["ca.key", "n1.node.key", "alice.client.key"] {
        let path = folder.path().join("ca").join(name);
        let mode = std::fs::metadata(path).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let files = "--cert @/ca/n1.node.crt --key @/ca/n1.node.key --ca @/ca/ca.crt";
    let check = format!("check {files} --crl @/ca/crl.pem");
    assert_eq!(run(&folder, &check), Ok(()));
    assert_eq!(run(&folder, "renew @/ca/n1.node.crt --dir @/ca"), Ok(()));
    let after = facts(&folder, "ca/n1.node.crt");
    assert_eq!((&after.dns_names, &after.addresses), (&before.dns_names, &before.addresses));
    assert_ne!(after.serial, before.serial);
    assert_eq!(run(&folder, &check), Ok(()));
    let other = "check --cert @/ca/n1.node.crt --key @/ca/alice.client.key --ca @/ca/ca.crt";
    assert!(run(&folder, other).is_err());
    assert_eq!(run(&folder, "revoke @/ca/alice.client.crt --dir @/ca"), Ok(()));
    assert_eq!(run(&folder, &format!("revoke {} --dir @/ca", before.serial)), Ok(()));
    assert!(run(&folder, "revoke 00 --dir @/ca").is_err());
    let records = CertificateFolder::open(&folder.path().join("ca")).and_then(|it| it.records());
    let records = records.map_err(|failure| failure.to_string()).expect("they are well-formed");
    let revoked: Vec<_> = records.iter().map(|it| it.revoked_s.is_some()).collect();
    assert_eq!(revoked, [true, true, false]);
    assert_eq!(run(&folder, "show --dir @/ca"), Ok(()));
    assert_eq!(run(&folder, "show @/ca/ca.crt"), Ok(()));
}

#[test]
fn encrypted_authority_signs_with_its_passphrase_alone() {
    let folder = TempDir::new().expect("a scratch folder");
    for (name, text) in [("right", "correct horse\n"), ("wrong", "wrong horse\n"), ("short", "x")] {
        std::fs::write(folder.path().join(name), text).expect("the folder is ours");
    }
    let init = |name: &str| run(&folder, &format!("init @/ca --passphrase-file @/{name}"));
    assert!(init("short").is_err_and(|text| text.contains("8 bytes")));
    assert_eq!(init("right"), Ok(()));
    let key = std::fs::read_to_string(folder.path().join("ca/ca.key")).expect("it was made");
    assert!(key.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"));
    let client =
        |name: &str| run(&folder, &format!("client alice --dir @/ca --passphrase-file @/{name}"));
    assert!(client("wrong").is_err_and(|text| text.contains("passphrase is wrong")));
    assert_eq!(client("right"), Ok(()));
}

//! Tests of the authority: keys, certificates and refusals.

use super::test_files::DAY;
use crate::Purpose;
use crate::authority::{Authority, Revocation};
use crate::keys::decode_key;
use crate::sources;
use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;
use zeroize::ZeroizeOnDrop;

#[test]
fn authority_opens_from_its_files_and_only_with_its_passphrase() {
    let now = SystemTime::now();
    let made = Authority::create("shop", now).expect("a valid name");
    let certificate = made.certificate().expect("short");
    let plain = made.key(None).expect("short");
    let sealed = made.key(Some("correct horse")).expect("short");
    assert!(!Authority::needs_passphrase(&plain) && Authority::needs_passphrase(&sealed));
    let open = |key: &str, passphrase| {
        let opened = Authority::open(&certificate, key, passphrase);
        opened.map(|authority| authority.cluster().to_string()).map_err(|error| error.text())
    };
    assert_eq!(open(&plain, None), Ok("shop".into()));
    assert_eq!(open(&sealed, Some("correct horse")), Ok("shop".into()));
    assert!(open(&sealed, None).is_err_and(|text| text.contains("needs its passphrase")));
    assert!(open(&sealed, Some("wrong")).is_err_and(|text| text.contains("wrong")));
    assert!(open("no key", None).is_err_and(|text| text.contains("PKCS #8")));
    let issued = made.issue(Purpose::Node, "n1", &[], now..now + DAY).expect("valid names");
    let other = Authority::open(&issued.certificate, &plain, None).map(drop);
    assert!(other.is_err_and(|error| error.text().contains("no authority")));
    // What an opened authority signs is of the same issuer.
    let opened = Authority::open(&certificate, &plain, None).expect("its own files");
    assert_eq!(opened.certificate().expect("short"), certificate);
}

#[test]
fn issued_certificate_states_what_was_asked_for() {
    let now = SystemTime::now();
    let authority = Authority::create("shop", now).expect("a valid name");
    let hosts = ["db1.example.org".to_string(), "10.0.0.1".into(), "::1".into()];
    let issued = authority.issue(Purpose::Node, "n1", &hosts, now..now + DAY);
    let facts = issued.expect("valid names").facts;
    assert_eq!(facts.dns_names, ["n1.node.shop.credenza.internal", "db1.example.org"]);
    let addresses: Vec<_> = facts.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.0.1", "::1"]);
    assert_eq!((facts.subject.as_str(), facts.serial.len()), ("CN=n1", 32));
    assert!(facts.not_after_s - facts.not_before_s <= 24 * 3_600 + 301);
    for name in ["", "a b", "*"] {
        assert!(authority.issue(Purpose::Client, name, &[], now..now + DAY).is_err(), "{name}");
    }
    let host = ["\u{e9}.example".to_string()];
    assert!(authority.issue(Purpose::Node, "n1", &host, now..now + DAY).is_err());
    for serial in ["", "0", "xy"] {
        let revoked = [Revocation { serial: serial.into(), revoked_s: 1 }];
        assert!(authority.revocation_list(&revoked, 1, now).is_err(), "{serial}");
    }
    assert!(Authority::create("Shop", now).is_err());
}

/// Compiles for values that are wiped when they are dropped.
fn must_be_wiped<T: ZeroizeOnDrop>(_: &T) {}

#[test]
fn private_keys_are_wiped_in_every_form_that_is_kept() {
    let now = SystemTime::now();
    let authority = Authority::create("shop", now).expect("a valid name");
    let plain = authority.key(None).expect("short");
    must_be_wiped(&plain);
    must_be_wiped(&authority.key(Some("correct horse")).expect("short"));
    must_be_wiped(&decode_key(&plain, None).expect("it was encoded"));
    let issued = authority.issue(Purpose::Client, "alice", &[], now..now + DAY);
    let issued = issued.expect("valid names");
    must_be_wiped(&issued.key);
    let file = tempfile::NamedTempFile::new().expect("a folder for temporary files");
    std::fs::write(file.path(), issued.key.as_bytes()).expect("it is ours");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(file.path(), mode).expect("it is ours");
    let read = sources::read("tls_key_file", file.path(), true).expect("a file of its owner");
    must_be_wiped(&read.pem);
    assert_eq!(read.pem[..], *issued.key.as_bytes());
    // In one piece: a text that grows would leave parts of it behind.
    assert_eq!(read.pem.capacity(), read.pem.len() + 1);
}

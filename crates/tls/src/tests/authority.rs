//! Tests of the authority: keys, certificates and refusals.

use super::test_files::DAY;
use crate::Purpose;
use crate::authority::{Authority, Revocation};
use std::time::SystemTime;

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

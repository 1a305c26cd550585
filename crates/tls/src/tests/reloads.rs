//! Reloads of changed files, and warnings.

use super::test_files::{DAY, TestFiles, call, unix_s};
use crate::authority::Revocation;
use crate::settings::{CertificateDemand, ListenerMode, PeerMode, TlsSettings};
use crate::{Purpose, Tls};
use base::AlarmCode;
use bytes::BytesMut;
use std::sync::Barrier;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

#[test]
fn reload_takes_effect_when_files_changed_and_bad_files_change_nothing() {
    let files = TestFiles::new();
    let tls = files.open(files.settings());
    let mut generation = tls.watch_generation();
    assert_eq!(tls.reload(), Ok(false), "nothing has changed");
    files.write_own("n1", &[]);
    assert_eq!(tls.reload(), Ok(true));
    assert_eq!(*generation.borrow_and_update(), 1);
    assert_eq!(tls.warnings(unix_s(SystemTime::now())), []);
    // The key of another certificate.
    files.write("node.key", &files.issue(Purpose::Node, "n1").key, 0o600);
    let error = tls.reload().expect_err("they do not belong together");
    assert!(error.text().contains("node.crt"), "{error}");
    assert!(!generation.has_changed().expect("it lives"));
    let warnings = tls.warnings(unix_s(SystemTime::now()));
    assert!(warnings.len() == 1 && warnings[0].code == AlarmCode::TlsReloadFailed);
    files.write("node.crt", "no certificate", 0o644);
    assert!(tls.reload().is_err());
    files.write_own("n1", &[]);
    assert_eq!((tls.reload(), *generation.borrow_and_update()), (Ok(true), 2));
    assert_eq!(tls.warnings(unix_s(SystemTime::now())), []);
}

#[test]
fn of_reloads_at_the_same_time_one_takes_effect() {
    let files = TestFiles::new();
    let tls = files.open(files.settings());
    let generation = tls.watch_generation();
    for round in 1..=10 {
        files.write_own("n1", &[]);
        let start = Barrier::new(8);
        let reload = || {
            start.wait();
            tls.reload().expect("the files are good")
        };
        let changes = std::thread::scope(|scope| {
            let reloads: Vec<_> = (0..8).map(|_| scope.spawn(reload)).collect();
            reloads.into_iter().filter_map(|it| it.join().ok()).filter(|it| *it).count()
        });
        assert_eq!((changes, *generation.borrow()), (1, round));
    }
}

#[test]
fn key_that_others_can_read_and_missing_files_are_refused() {
    let files = TestFiles::new();
    let refused = |settings: TlsSettings| {
        Tls::open(settings).map(drop).expect_err("it must not start").text()
    };
    for mode in [0o640, 0o604, 0o660, 0o601] {
        let key = std::fs::read_to_string(files.path("node.key")).expect("written above");
        files.write("node.key", &key, mode);
        let text = refused(files.settings());
        assert!(text.contains("tls_key_file") && text.contains("chmod 600"), "{mode:o}: {text}");
        files.write("node.key", &key, 0o600);
    }
    let none = |settings: TlsSettings, setting: &str| {
        let text = refused(settings);
        assert!(text.contains(setting), "{text}");
    };
    none(TlsSettings { certificate: None, ..files.settings() }, "tls_cert_file");
    none(TlsSettings { key: None, ..files.settings() }, "tls_key_file");
    none(TlsSettings { authorities: None, ..files.settings() }, "tls_ca_file");
    let absent = Some(files.path("absent"));
    none(TlsSettings { revoked: absent, ..files.settings() }, "tls_crl_file");
    // A certificate of a client names no node.
    let client = files.issue(Purpose::Client, "alice");
    files.write("node.crt", &client.certificate, 0o644);
    files.write("node.key", &client.key, 0o600);
    assert!(refused(files.settings()).contains("names no node"));
    // Where no certificate of others is looked at, any will do.
    let alone = TlsSettings {
        listeners: ListenerMode::Optional,
        peers: PeerMode::Off,
        client_certificates: CertificateDemand::Off,
        authorities: None,
        ..files.settings()
    };
    assert!(Tls::open(alone).is_ok());
}

#[test]
fn certificate_that_ends_soon_is_warned_of() {
    let files = TestFiles::new();
    let tls = files.open(files.settings());
    let now = SystemTime::now();
    let warnings = |days: u32| tls.warnings(unix_s(now + days * DAY));
    assert_eq!(warnings(59), []);
    assert!(warnings(62)[0].detail.contains("expires in 2"), "{:?}", warnings(62));
    assert!(warnings(91)[0].detail.contains("has expired"));
    let authority = warnings(3_640);
    assert!(authority[1].subject.contains("Credenza CA of shop"), "{authority:?}");
}

#[tokio::test]
async fn certificate_of_an_open_connection_is_refused_once_a_reload_revokes_it() {
    let files = TestFiles::new();
    let list = |revoked: &[Revocation], number| {
        let list = files.authority.revocation_list(revoked, number, SystemTime::now());
        files.write("crl.pem", &list.expect("valid numbers"), 0o644);
    };
    list(&[], 1);
    let revoked = Some(files.path("crl.pem"));
    let tls = files.open(TlsSettings { revoked, ..files.settings() });
    let [alice, bob] = ["alice", "bob"].map(|name| files.issue(Purpose::Client, name));
    let mut presented = Vec::new();
    for own in [&alice, &bob] {
        let accept = async |socket| tls.accept_client(socket, BytesMut::new()).await;
        let stream = call(files.caller(Some(own), b"http/1.1"), accept).await.expect("valid");
        presented.push(stream.presented_chain().expect("it has a certificate"));
    }
    let is_refused = async |at: usize, limit_ms| {
        let waiting = tls.wait_until_refused(&presented[at]);
        timeout(Duration::from_millis(limit_ms), waiting).await.is_ok()
    };
    assert!(!is_refused(0, 50).await, "nothing was read again");
    list(&[Revocation { serial: alice.facts.serial.clone(), revoked_s: 1 }], 2);
    let (ended, reloaded) = tokio::join!(is_refused(0, 20_000), async { tls.reload() });
    assert!(ended && reloaded == Ok(true));
    assert!(is_refused(0, 20_000).await, "also for who comes to ask late");
    assert!(!is_refused(1, 50).await, "another one is as good as before");
}

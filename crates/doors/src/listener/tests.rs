//! The listener with real sockets on loopback.

use super::*;

#[test]
fn addresses_beyond_loopback_need_a_word_of_consent() {
    let mut settings =
        DoorSettings { listen: "0.0.0.0:0".parse().expect("an address"), ..Default::default() };
    let error = check_addresses(&settings).expect_err("open to the network");
    assert!(error.text().contains("insecure"), "{error}");
    settings.insecure = true;
    assert_eq!(check_addresses(&settings), Ok(()));
    assert_eq!(main_face(&settings), Face::Clients);
    settings = DoorSettings {
        admin_listen: Some("[::]:0".parse().expect("an address")),
        ..Default::default()
    };
    let error = check_addresses(&settings).expect_err("open to the network");
    assert!(error.text().starts_with("admin_listen"), "{error}");
    settings.admin_listen = None;
    assert_eq!(check_addresses(&settings), Ok(()));
    assert_eq!(main_face(&settings), Face::Both);
}

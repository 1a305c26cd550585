//! Refused requests, and connections that end with a refusal.

use super::{PbcClient, get, put, server, text};
use bytes::Bytes;
use riak_pbc::*;
use std::io::Write;

#[test]
fn connection_survives_requests_that_are_refused() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    assert_eq!(client.refused(70, &()), "Unknown message code: 70");
    assert!(client.refused(9, &RpbPair { key: text("b"), value: None }).starts_with("Key cannot"));
    client.0.write_all(b"\0\0\0\x03\x09\x0a\x7f").expect("sent");
    let error: RpbErrorResp = client.answer();
    assert!(error.errmsg.starts_with(b"Message decoding error"), "{error:?}");
    for (request, expected) in [
        (RpbGetReq { bucket: Bytes::new(), ..get("k") }, "Bucket cannot be zero-length"),
        (get(""), "Key cannot be zero-length"),
        (RpbGetReq { r#type: Some(Bytes::new()), ..get("k") }, "Type cannot be zero-length"),
        (RpbGetReq { r#type: Some(text("no")), ..get("k") }, "No bucket-type named 'no'"),
        (RpbGetReq { r: Some(9), ..get("k") }, "{n_val_violation,3}"),
    ] {
        assert_eq!(client.refused(9, &request), expected);
    }
    let asis = RpbPutReq { asis: Some(true), ..put("k", "v") };
    assert!(client.refused(11, &asis).starts_with("asis is not supported"));
    let job = RpbMapRedReq { request: text("{}"), content_type: text("application/json") };
    assert!(client.refused(23, &job).starts_with("MapReduce is not supported"));
    assert_eq!(client.refused(255, &()), "Security not enabled; STARTTLS not allowed.");
    client.ask_empty(1, &(), code::PING);
}

#[test]
fn frame_of_an_impossible_length_ends_the_connection_with_an_error() {
    let server = server();
    for head in [&b"\0\0\0\0\0"[..], b"\xff\xff\xff\xff\x0b"] {
        let mut client = PbcClient::connect(&server);
        client.ask_empty(1, &(), code::PING);
        client.0.write_all(head).expect("sent");
        let error: RpbErrorResp = client.answer();
        assert!(error.errmsg.starts_with(b"a frame can't have"), "{error:?}");
        assert!(client.has_ended());
    }
}

#[test]
fn requests_sent_together_are_answered_in_order() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    client.send(11, &put("k", "v"));
    client.send(9, &get("k"));
    client.send(1, &());
    let _: RpbPutResp = client.answer();
    assert_eq!(client.answer::<RpbGetResp>().content.len(), 1);
    assert_eq!(client.receive().0, code::PING);
}

#[test]
fn clients_id_and_servers_version_are_returned() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    client.ask_empty(5, &RpbSetClientIdReq { client_id: text("abcd") }, code::SET_CLIENT_ID);
    assert_eq!(client.ask::<RpbGetClientIdResp>(3, &()).client_id, text("abcd"));
    let info: RpbGetServerInfoResp = client.ask(7, &());
    assert_eq!(info.server_version, Some(text("2.2.3")));
    let long = RpbSetClientIdReq { client_id: vec![0; 65].into() };
    assert!(client.refused(5, &long).contains("64 bytes"));
}

#[test]
fn other_protocols_are_refused_at_this_port() {
    let server = server();
    let answer = server.exchange(server.addresses[1], b"PING\r\n");
    assert!(!answer.contains("PONG"), "{answer}");
    // At the port of all protocols, frames are not recognized.
    let answer = server.exchange(server.address, b"\0\0\0\x01\x01");
    assert!(!answer.starts_with("\0\0\0\x01\x02"), "{answer}");
}

//! Objects: writes, reads, siblings, conditions and deletes.

use super::{PbcClient, delete, get, put, server, text};
use riak_pbc::*;

#[test]
fn client_writes_reads_and_resolves_siblings() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    assert_eq!(client.ask::<RpbGetResp>(9, &get("fig")), RpbGetResp::default());
    assert_eq!(client.ask::<RpbPutResp>(11, &put("fig", "green")), RpbPutResp::default());
    let both = RpbPutReq { return_body: Some(true), ..put("fig", "ripe") };
    let both: RpbPutResp = client.ask(11, &both);
    assert_eq!(both.content.len(), 2, "a blind write replaces nothing");
    let head = RpbGetReq { head: Some(true), ..get("fig") };
    let head: RpbGetResp = client.ask(9, &head);
    assert!(head.content.len() == 2 && head.content.iter().all(|value| value.value.is_empty()));
    assert_eq!(head.vclock, both.vclock);
    let resolved = RpbPutReq { vclock: both.vclock, ..put("fig", "eaten") };
    let _: RpbPutResp = client.ask(11, &resolved);
    let read: RpbGetResp = client.ask(9, &get("fig"));
    let values: Vec<_> = read.content.iter().map(|value| &value.value[..]).collect();
    assert_eq!(values, [b"eaten"]);
    let again = RpbGetReq { if_modified: read.vclock.clone(), ..get("fig") };
    let again: RpbGetResp = client.ask(9, &again);
    assert_eq!((again.unchanged, again.content.len()), (Some(true), 0));
}

#[test]
fn conditions_fail_with_riaks_words() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    let only_new = RpbPutReq { if_none_match: Some(true), ..put("fig", "v") };
    let _: RpbPutResp = client.ask(11, &only_new);
    assert_eq!(client.refused(11, &only_new), "match_found");
    let read: RpbGetResp = client.ask(9, &get("fig"));
    let unchanged =
        RpbPutReq { if_not_modified: Some(true), vclock: read.vclock, ..put("fig", "w") };
    let _: RpbPutResp = client.ask(11, &unchanged);
    assert_eq!(client.refused(11, &unchanged), "modified");
}

#[test]
fn deleted_object_shows_its_clock_to_those_who_ask() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    client.ask_empty(13, &delete("fig"), code::DEL);
    let _: RpbPutResp = client.ask(11, &put("fig", "v"));
    client.ask_empty(13, &delete("fig"), code::DEL);
    assert_eq!(client.ask::<RpbGetResp>(9, &get("fig")), RpbGetResp::default());
    let deleted: RpbGetResp = client.ask(9, &RpbGetReq { deletedvclock: Some(true), ..get("fig") });
    assert!(deleted.vclock.is_some() && deleted.content.is_empty(), "{deleted:?}");
}

#[test]
fn metadata_is_what_the_http_interface_has() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    let pair = |key, value| RpbPair { key: text(key), value: Some(text(value)) };
    let content = RpbContent {
        value: text("v"),
        content_type: Some(text("text/plain")),
        usermeta: vec![pair("farm", "west")],
        indexes: vec![pair("Age_Int", "7")],
        ..RpbContent::default()
    };
    let named = RpbPutReq { content: Some(content), ..put("fig", "") };
    let _: RpbPutResp = client.ask(11, &named);
    let request = "GET /buckets/fruit/keys/fig HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = server.exchange(server.address, request.as_bytes());
    for line in ["X-Riak-Meta-farm: west", "x-riak-index-age_int: 7", "Content-Type: text/plain"] {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    let mut wrong = named;
    wrong.content = Some(RpbContent { indexes: vec![pair("age", "7")], ..<_>::default() });
    assert_eq!(client.refused(11, &wrong), "Unknown field type for field: 'age'.");
}

#[test]
fn key_is_generated_and_returned() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    let stored: RpbPutResp = client.ask(11, &RpbPutReq { key: None, ..put("", "v") });
    let key = stored.key.expect("a key");
    let read: RpbGetResp = client.ask(9, &RpbGetReq { key, ..get("") });
    assert_eq!(read.content.len(), 1);
}

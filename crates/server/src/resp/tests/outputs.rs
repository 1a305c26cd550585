//! Tests of answers in both protocol versions, and of answers whose update stays undecided.

use crate::resp::output::{Output, Protocol};
use base::{GroupId, LogIndex};
use bytes::Bytes;
use node::Ticket;

fn encoded(protocol: Protocol, write: impl Fn(&mut Output)) -> String {
    let mut out = Output::new(protocol);
    write(&mut out);
    assert_eq!(out.len(), out.to_bytes().len());
    base::codec::printable(&out.to_bytes()).replace("\\x0d\\x0a", "|")
}

#[test]
fn reply_types_are_encoded_in_resp2_and_resp3() {
    let both =
        |write: fn(&mut Output)| (encoded(Protocol::Two, write), encoded(Protocol::Three, write));
    let same = |text: &str| (text.to_string(), text.to_string());
    let differ = |two: &str, three: &str| (two.to_string(), three.to_string());
    assert_eq!(both(|out| out.ok()), same("+OK|"));
    assert_eq!(both(|out| out.error("ERR a\r\nb")), same("-ERR a  b|"));
    assert_eq!(both(|out| out.integer(i64::MIN)), same(":-9223372036854775808|"));
    assert_eq!(both(|out| out.integer(10)), same(":10|"));
    assert_eq!(both(|out| out.count(u64::MAX)), same(":9223372036854775807|"));
    assert_eq!(both(|out| out.bulk(b"a\0")), same("$2|a\\x00|"));
    assert_eq!(both(|out| out.null()), differ("$-1|", "_|"));
    assert_eq!(both(|out| out.null_array()), differ("*-1|", "_|"));
    assert_eq!(both(|out| out.array(3)), same("*3|"));
    assert_eq!(both(|out| out.map(2)), differ("*4|", "%2|"));
    assert_eq!(both(|out| out.set(2)), differ("*2|", "~2|"));
    assert_eq!(both(|out| out.verbatim("hi")), differ("$2|hi|", "=6|txt:hi|"));
}

#[test]
fn large_value_is_sent_without_copying() {
    let large = Bytes::from(vec![b'x'; 20_000]);
    let mut out = Output::new(Protocol::Two);
    out.bulk(b"a");
    out.value(&large);
    out.ok();
    let pieces: Vec<&[u8]> = out.pieces().collect();
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[1].as_ptr(), large.as_ptr());
    let expected = [b"$1\r\na\r\n$20000\r\n", &large[..], b"\r\n+OK\r\n"].concat();
    assert_eq!(out.to_bytes(), expected);
}

#[test]
fn replies_of_undecided_tickets_become_errors_in_order() {
    let ticket = |index| Ticket { group: GroupId(1), index: LogIndex(index), epoch: 0 };
    let large = Bytes::from(vec![b'x'; 20_000]);
    let mut out = Output::new(Protocol::Two);
    out.simple("ready");
    let from = out.position();
    out.ok();
    out.attach_ticket(from, ticket(1));
    let from = out.position();
    out.value(&large);
    out.attach_ticket(from, ticket(2));
    out.simple("between");
    let from = out.position();
    out.array(2);
    out.value(&large);
    out.integer(7);
    out.attach_ticket(from, ticket(3));
    let unknown = Some("UNKNOWN it may have been applied".to_string());
    let mut failed = out.pending().len();
    failed -= 1;
    assert_eq!(failed, 2);
    out.replace_failed(&[None, unknown.clone(), unknown]);
    let expected = "+ready|+OK|-UNKNOWN it may have been applied|+between|\
                    -UNKNOWN it may have been applied|";
    assert_eq!(base::codec::printable(&out.to_bytes()).replace("\\x0d\\x0a", "|"), expected);
    assert!(out.pending().is_empty());
}

#[test]
fn truncated_output_drops_reply_and_its_ticket() {
    let mut out = Output::new(Protocol::Two);
    out.simple("kept");
    let from = out.position();
    out.value(&Bytes::from(vec![0; 20_000]));
    out.attach_ticket(from, Ticket { group: GroupId(1), index: LogIndex(1), epoch: 0 });
    out.truncate(from);
    assert_eq!(out.to_bytes(), b"+kept\r\n");
    assert_eq!((out.len(), out.pending().len()), (7, 0));
}

#[test]
fn mget_of_200_large_values_returns_them_in_order() {
    use super::test_client::{TestClient, TestServer, show};
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    let keys: Vec<String> = (0..200).map(|n| format!("large-{n}")).collect();
    let value = |n: usize| vec![b'a' + (n % 26) as u8; 20_000 + n];
    for (n, key) in keys.iter().enumerate() {
        client.send(&super::frames::request(&[b"SET", key.as_bytes(), &value(n)]));
        assert_eq!(show(&client.answer().expect("an answer")), "+OK|");
    }
    let args: Vec<&[u8]> =
        [&b"MGET"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
    for _ in 0..2 {
        client.send(&super::frames::request(&args));
        let mut expected = b"*200\r\n".to_vec();
        for n in 0..200 {
            expected.extend(format!("${}\r\n", 20_000 + n).bytes());
            expected.extend(value(n));
            expected.extend(b"\r\n");
        }
        assert!(client.answer().expect("an answer") == expected, "other bytes than were written");
    }
}

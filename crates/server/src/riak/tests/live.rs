//! Tests over a socket with a real node: bytes that a Riak client sends and reads.

use crate::ServerSettings;
use crate::tests::test_server::TestServer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Client connection.
pub(super) struct Client(TcpStream);

impl Client {
    pub(super) fn connect(server: &TestServer) -> Client {
        let stream = TcpStream::connect(server.address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        Client(stream)
    }

    /// Sends a request. Returns the status, head and body of the answer.
    pub(super) fn send(&mut self, request: &str) -> (u16, String, String) {
        self.0.write_all(request.as_bytes()).expect("sent");
        self.answer()
    }

    fn answer(&mut self) -> (u16, String, String) {
        let mut received = Vec::new();
        let head = loop {
            if let Some(end) = memchr::memmem::find(&received, b"\r\n\r\n") {
                break String::from_utf8_lossy(&received[..end + 2]).into_owned();
            }
            self.receive(&mut received);
        };
        let status = head[9..12].parse().expect("a status");
        let lower = head.to_ascii_lowercase();
        let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let start = head.len() + 2;
        match length {
            Some(length) => {
                let length: usize = length.parse().expect("a length");
                while received.len() < start + length {
                    self.receive(&mut received);
                }
            }
            None if head.contains("chunked") => {
                while !received.ends_with(b"\r\n0\r\n\r\n") {
                    self.receive(&mut received);
                }
            }
            None => {}
        }
        (status, head, String::from_utf8_lossy(&received[start..]).into_owned())
    }

    fn receive(&mut self, received: &mut Vec<u8>) {
        let mut buffer = [0; 4096];
        let read = self.0.read(&mut buffer).expect("an answer");
        assert!(read > 0, "the connection ended: {}", String::from_utf8_lossy(received));
        received.extend_from_slice(&buffer[..read]);
    }

    pub(super) fn get(&mut self, path: &str) -> (u16, String, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    pub(super) fn put(&mut self, path: &str, headers: &str, value: &str) -> (u16, String, String) {
        let length = value.len();
        self.send(&format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\n{headers}\r\n{value}"
        ))
    }
}

pub(super) fn header<'a>(head: &'a str, name: &str) -> &'a str {
    head.split(&format!("{name}: ")).nth(1).and_then(|rest| rest.lines().next()).expect("there")
}

/// Path with quorums of one, because a single node has one replica of each key.
const KEY: &str = "/buckets/fruit/keys/fig?w=1&dw=1&r=1&pr=0&pw=0";

#[test]
fn client_writes_reads_resolves_siblings_and_deletes() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    assert_eq!(client.get("/ping").2, "OK");
    assert!(client.get("/stats").2.contains("\"riak_kv_version\":\"2."));
    assert!(client.get("/").2.contains("riak_kv_wm_object"));
    assert_eq!(client.get(KEY).0, 404);
    let (status, head, body) = client.put(KEY, "X-Riak-Meta-Farm: west\r\n", "green");
    assert_eq!((status, &body[..]), (204, ""), "{head}");
    let (status, head, body) = client.get(KEY);
    assert_eq!((status, &body[..]), (200, "green"), "{head}");
    assert_eq!(header(&head, "X-Riak-Meta-Farm"), "west");
    assert_eq!(client.put(KEY, "", "blue").0, 204, "blind: one more sibling");
    let (status, head, _) = client.get(KEY);
    assert_eq!(status, 300, "{head}");
    let seen = format!("X-Riak-Vclock: {}\r\n", header(&head, "X-Riak-Vclock"));
    assert_eq!(client.put(KEY, &seen, "ripe").0, 204);
    assert_eq!(client.get(KEY).2, "ripe");
    let delete = |key: &str| format!("DELETE {key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.send(&delete(KEY)).0, 204);
    let (status, head, _) = client.send(&delete(KEY));
    assert_eq!((status, head.contains("X-Riak-Deleted: true")), (404, true));
    assert_eq!(client.get(KEY).0, 404);
}

/// Values, lists and errors may repeat what a hostile client stored or sent.
#[test]
fn every_answer_tells_browsers_to_run_nothing() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    let assert_is_inert = |(status, head, _): (u16, String, String), expected: u16| {
        assert_eq!(status, expected, "{head}");
        assert_eq!(header(&head, "X-Content-Type-Options"), "nosniff", "{head}");
        assert_eq!(head.matches("X-Content-Type-Options").count(), 1, "{head}");
        assert_eq!(head.matches("Content-Security-Policy").count(), 1, "{head}");
        header(&head, "Content-Security-Policy").to_string()
    };
    let sandbox = "default-src 'none'; sandbox";
    assert_eq!(assert_is_inert(client.put(KEY, "", "<script>"), 204), sandbox);
    assert_eq!(assert_is_inert(client.get(KEY), 200), sandbox);
    assert_eq!(client.put(KEY, "", "<script>2").0, 204);
    assert_eq!(assert_is_inert(client.get(KEY), 300), sandbox);
    for (path, status) in [
        ("/buckets/fruit/keys/%3Cscript%3E", 404),
        ("/buckets/fruit/keys/fig?r=%3Cscript%3E", 400),
        ("/buckets/fruit/keys?keys=true", 200),
        ("/buckets/fruit/keys?keys=stream", 200),
        ("/stats", 200),
    ] {
        assert_eq!(assert_is_inert(client.get(path), status), sandbox, "{path}");
    }
    let page = client.send("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n");
    let policy = assert_is_inert(page, 200);
    assert!(policy.starts_with("default-src 'none'; style-src") && !policy.contains("script"));
}

/// Request of Riak's Java client (`riak-client` 1.4.4). It accepts siblings only as parts, and
/// fails on anything else.
#[test]
fn java_client_fetch_of_siblings_is_answered_as_multipart() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    for value in ["green", "blue"] {
        assert_eq!(client.put("/riak/fruit/fig?w=1&dw=1", "", value).0, 204);
    }
    let read = "/riak/fruit/fig HTTP/1.1\r\nAccept: */*, multipart/mixed\r\n\
                Host: localhost\r\nConnection: Keep-Alive\r\n\
                User-Agent: Apache-HttpClient/4.2.2 (java 1.5)\r\n\r\n";
    let (status, head, body) = client.send(&format!("GET {read}"));
    assert_eq!(status, 300, "{head}");
    let boundary = header(&head, "Content-Type").strip_prefix("multipart/mixed; boundary=");
    let boundary = boundary.unwrap_or_else(|| panic!("no parts: {head}"));
    let parts: Vec<&str> = body.split(&format!("\r\n--{boundary}")).collect();
    assert_eq!((parts.len(), parts[0], parts[3]), (4, "", "--\r\n"), "{body}");
    let mut values: Vec<_> = parts[1..3].iter().map(|part| part.split("\r\n\r\n").nth(1)).collect();
    values.sort();
    assert_eq!(values, [Some("blue"), Some("green")]);
    let seen = format!("X-Riak-Vclock: {}\r\n", header(&head, "X-Riak-Vclock"));
    let stored = format!("{seen}Accept: */*, multipart/mixed\r\n");
    assert_eq!(client.put("/riak/fruit/fig?w=1&dw=1", &stored, "ripe").0, 204);
    assert_eq!(client.send(&format!("GET {read}")).2, "ripe");
}

/// A `HEAD` has the headers of the `GET`, and no body.
#[test]
fn head_of_siblings_negotiates_its_content_type() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    for value in ["green", "blue"] {
        assert_eq!(client.put(KEY, "", value).0, 204);
    }
    for (accept, kind) in
        [("*/*, multipart/mixed", "multipart/mixed"), ("multipart/mixed, */*", "text/plain")]
    {
        let request = format!("HEAD {KEY} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
        client.0.write_all(request.as_bytes()).expect("sent");
        let mut received = Vec::new();
        while !received.ends_with(b"\r\n\r\n") {
            client.receive(&mut received);
        }
        let head = String::from_utf8_lossy(&received).into_owned();
        assert!(head.starts_with("HTTP/1.1 300 "), "{head}");
        assert!(header(&head, "Content-Type").starts_with(kind), "{accept}: {head}");
    }
}

#[test]
fn keys_and_buckets_are_listed_and_streamed() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    for key in ["a", "b%2Fc"] {
        let path = format!("/buckets/b%C3%A4r/keys/{key}?w=1&dw=1");
        assert_eq!(client.put(&path, "", "x").0, 204);
    }
    let (_, _, body) = client.get("/buckets/b%C3%A4r/keys?keys=true");
    assert_eq!(body, "{\"keys\":[\"a\",\"b/c\"]}");
    let (_, _, body) = client.get("/buckets/b%C3%A4r/keys?keys=stream");
    let page = "{\"keys\":[\"a\",\"b/c\"]}";
    assert_eq!(body, format!("14\r\n{page}\r\nb\r\n{{\"keys\":[]}}\r\n0\r\n\r\n"));
    assert_eq!(client.get("/buckets?buckets=true").2, "{\"buckets\":[\"bär\"]}");
}

#[test]
fn invalid_request_is_refused_and_ends_the_connection() {
    let server = TestServer::build();
    for (request, status) in [
        ("PUT /buckets/b/keys/k HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403),
        ("PUT /buckets/b/keys/k HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", 403),
        ("PUT /buckets/b/keys/k HTTP/1.1\r\n\r\n", 400),
        ("PUT /riak/b/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", 413),
    ] {
        let mut client = Client::connect(&server);
        let (answer_status, head, _) = client.send(request);
        assert_eq!((answer_status, header(&head, "Connection")), (status, "close"), "{request}");
    }
}

/// Client that sends a header per link, like Riak's own, and its value in chunks.
#[test]
fn put_with_300_link_headers_and_chunked_body_is_stored() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    let links: String =
        (0..300).map(|at| format!("Link: </buckets/b/keys/{at}>; riaktag=\"t\"\r\n")).collect();
    let request = format!(
        "PUT {KEY} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n{links}\
         Transfer-Encoding: chunked\r\n\r\n3\r\nfig\r\n0\r\n\r\n"
    );
    assert_eq!(client.send(&request).0, 204);
    let (_, head, body) = client.get(KEY);
    assert_eq!((header(&head, "Link").matches("riaktag").count(), &body[..]), (300, "fig"));
}

/// A client that requested a stream closes its connection on any status but 200. So a timeout of
/// the list is reported inside the stream, and the connection stays open.
#[test]
fn key_stream_timeout_is_reported_inside_the_stream() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    assert_eq!(client.put("/buckets/b/keys/k?w=1&dw=1", "", "x").0, 204);
    for timeout in ["1", "60000"] {
        let stream = format!("/buckets/b/keys?keys=stream&timeout={timeout}");
        let (status, head, body) = client.get(&stream);
        assert_eq!(status, 200, "{head}{body}");
        let complete = body.contains("{\"keys\":[\"k\"]}") && body.contains("{\"keys\":[]}");
        let is_late = body.contains("{\"error\":\"timeout\"}");
        assert!(complete || (is_late && timeout == "1"), "{body}");
    }
}

/// A consistent bucket has one value per key, and checks conditions when it writes.
#[test]
fn consistent_bucket_evaluates_riak_preconditions_on_write() {
    let server = TestServer::build();
    let name = base::BucketName::new("strict", "b").expect("a name");
    for call in
        [base::DirectoryCall::CreateType(Vec::new()), base::DirectoryCall::CreateBucket(Vec::new())]
    {
        let call = base::Call::Directory(call);
        server.call(base::Request { bucket: name.clone(), call, retry: None }).expect("made");
    }
    let mut client = Client::connect(&server);
    let key = "/types/strict/buckets/b/keys/k";
    assert_eq!(client.get(key).0, 404);
    assert_eq!(client.put(key, "If-None-Match: *\r\n", "one").0, 204);
    assert_eq!(client.put(key, "If-None-Match: *\r\n", "two").0, 412);
    let (status, head, body) = client.get(key);
    assert_eq!((status, &body[..]), (200, "one"), "{head}");
    let seen = format!("X-Riak-Vclock: {}\r\n", header(&head, "X-Riak-Vclock"));
    let tag = format!("If-Match: {}\r\n", header(&head, "ETag"));
    assert_eq!(client.put(key, &seen, "two").0, 204);
    assert_eq!(client.put(key, &seen, "three").0, 412, "it was written since");
    assert_eq!(client.put(key, &tag, "three").0, 412);
    assert_eq!(client.get(key).2, "two");
    assert_eq!(client.put(key, "X-Riak-Meta-Farm: west\r\n", "x").0, 400);
    let (_, _, keys) = client.get("/types/strict/buckets/b/keys?keys=true");
    assert_eq!(keys, "{\"keys\":[\"k\"]}");
    let delete = format!("DELETE {key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.send(&delete).0, 204);
    assert_eq!(client.get(key).0, 404);
}

/// Connection that several clients share, as behind a balancer: it carries paths of Riak and of the
/// native front-end.
#[test]
fn shared_port_routes_each_path_to_its_front_end() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    let native_path = "/v1/buckets/default/default/keys/fig";
    for value in ["green", "ripe"] {
        assert!(client.get("/").2.contains("riak_kv_wm_object"));
        assert_eq!(client.put(native_path, "", value).0, 204);
        assert_eq!(client.get("/ping").2, "OK");
        let (status, head, body) = client.get(native_path);
        assert_eq!((status, &body[..]), (200, value), "{head}");
        assert_eq!(client.get("/live").0, 200);
    }
    // All requests at once: each is answered by its own front-end, in order.
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let all = ["/ping", native_path, "/ping"].map(request).concat();
    client.0.write_all(all.as_bytes()).expect("sent");
    let mut heard = Vec::new();
    while String::from_utf8_lossy(&heard).matches("\r\n\r\nOK").count() < 2 {
        client.receive(&mut heard);
    }
    let heard = String::from_utf8_lossy(&heard).into_owned();
    assert!(heard.contains("\r\n\r\nripe"), "{heard}");
}

#[test]
fn content_length_claim_reserves_no_memory_and_received_body_does() {
    let settings = ServerSettings { buffer_bytes_max: 12 << 20, ..ServerSettings::default() };
    let server = TestServer::with_settings(settings);
    let head = |length: usize| {
        format!(
            "PUT {KEY} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let claims = (0..20).map(|_| {
        let mut claims = Client::connect(&server);
        claims.0.write_all(head(8 << 20).as_bytes()).expect("sent");
        claims
    });
    let claims: Vec<_> = claims.collect();
    let mut client = Client::connect(&server);
    assert_eq!(client.put(KEY, "", &"x".repeat(6 << 20)).0, 204);
    // These requests hold all of the memory.
    let part = vec![b'x'; 3 << 20];
    let mut holding: Vec<_> = claims.into_iter().take(5).collect();
    let sent = holding.iter_mut().map(|client| client.0.write_all(&part).is_ok());
    assert!(sent.filter(|sent| *sent).count() > 0);
    let refused = || {
        let mut client = Client::connect(&server);
        client.0.write_all(head(6 << 20).as_bytes()).expect("sent");
        // The server may refuse the request before it has read all of it.
        let _ = client.0.write_all(&vec![b'x'; 6 << 20]);
        client.answer().0 == 503
    };
    assert!((0..100).any(|_| refused()), "nothing is counted");
    drop(holding);
    let is_stored = |client: &mut Client| client.put(KEY, "", "small").0 == 204;
    assert!(is_stored(&mut Client::connect(&server)));
}

#[test]
fn key_list_beyond_memory_is_refused_and_key_stream_is_served() {
    let settings = ServerSettings { buffer_bytes_max: 1 << 20, ..ServerSettings::default() };
    let server = TestServer::with_settings(settings);
    let mut client = Client::connect(&server);
    for key in 0..30 {
        let path = format!("/buckets/b/keys/{key}{}?w=1&dw=1", "k".repeat(30_000));
        assert_eq!(client.put(&path, "", "x").0, 204);
    }
    let (status, head, body) = client.get("/buckets/b/keys?keys=true");
    assert_eq!(status, 503, "{head}{body}");
    let (status, _, body) = client.get("/buckets/b/keys?keys=stream");
    assert_eq!((status, body.matches("kkkk\"").count()), (200, 30));
}

#[test]
fn counter_and_bucket_properties_are_updated_and_read() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    let post = |client: &mut Client, path: &str, body: &str| {
        let length = body.len();
        client.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    };
    let counter = "/buckets/hits/counters/home";
    assert_eq!(client.get(counter).0, 404);
    assert_eq!(post(&mut client, &format!("{counter}?returnvalue=true"), "5").2, "5");
    assert_eq!(client.get(counter).2, "5");
    let put = |client: &mut Client, path: &str, body: &str| {
        let length = body.len();
        client.send(&format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    };
    let props = "/buckets/hits/props";
    assert_eq!(put(&mut client, props, "{\"props\":{\"allow_mult\":false}}").0, 204);
    assert!(client.get(props).2.contains("\"allow_mult\":false"));
    assert_eq!(post(&mut client, counter, "5").0, 409);
    let reset = format!("DELETE {props} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.send(&reset).0, 204);
    assert_eq!(post(&mut client, counter, "5").0, 204);
    let (_, head, stats) = client.get("/stats");
    assert!(head.contains("Date: ") && stats.contains("\"node_puts_total\":"), "{head}{stats}");
    assert_eq!(client.get("/types/none/props").0, 404);
    assert_eq!(client.get("/buckets/hits/keys/home/preflist").0, 200);
}

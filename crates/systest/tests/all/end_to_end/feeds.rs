//! Feeds of changes, as users of the command line, of HTTP and of Redis' protocol meet them; copies
//! by feed, and the page about both.

use super::typed_pages::TypedPage;
use super::{http, must_fail, output, resp, start_server, tool};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;
use systest::client::RespReply;
use systest::cluster::wait_until;
use systest::environment::{Root, missing};
use systest::report::skipped;
use systest::server::Server;

const FEED: &str = "/v1/buckets/default/orders/feed";
/// Longest wait for a line of a stream.
const PATIENCE: Duration = Duration::from_secs(60);
/// Prefix of the keys in which copies keep their state.
const STATE_KEYS: &str = "credenza/copy/";

fn put(server: &Server, bucket: &str, key: &str, value: &str) {
    tool(server, &["put", "-b", bucket, key, value]);
}

/// Returns a page of the feed of the orders, once it is built.
fn page(server: &Server, parameters: &str) -> Value {
    let mut found = Value::Null;
    wait_until("a page of the feed", || {
        let answer = http(server).request("GET", &format!("{FEED}?{parameters}"), b"");
        let answer = answer.expect("it answers");
        if answer.status == 503 {
            return Err(answer.text());
        }
        assert_eq!(answer.status, 200, "{parameters}: {}", answer.text());
        found = answer.json();
        Ok(())
    });
    found
}

/// Returns the kind and the key of each event.
fn events(page: &Value) -> Vec<String> {
    let events = page["events"].as_array().into_iter().flatten();
    events.map(name).collect()
}

fn name(message: &Value) -> String {
    let text = |field: &str| message[field].as_str().unwrap_or_default().to_string();
    format!("{} {}", text("event"), text("key")).trim().into()
}

fn token(message: &Value) -> String {
    message["token"].as_str().expect("a token").into()
}

/// Lines of a stream, as they come: HTTP/1.0 knows no chunks.
struct StreamLines(BufReader<TcpStream>);

impl StreamLines {
    fn open(server: &Server, parameters: &str, headers: &str) -> StreamLines {
        let address = server.address;
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        let request = format!("GET {FEED}/stream?{parameters} HTTP/1.0\r\nhost: {address}\r\n");
        write!(stream, "{request}{headers}\r\n").expect("sent");
        let mut lines = StreamLines(BufReader::new(stream));
        let status = lines.line();
        assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
        while !lines.line().is_empty() {}
        lines
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let bytes = self.0.read_line(&mut line).expect("a line comes in time");
        assert!(bytes > 0, "the stream ended");
        line.trim_end().into()
    }

    /// Returns the next message of JSON lines, without heartbeats.
    fn message(&mut self) -> Value {
        loop {
            let line = self.line();
            if !line.is_empty() {
                return serde_json::from_str(&line).expect("JSON");
            }
        }
    }

    /// Returns the next server-sent event: its id, its name, its data.
    fn event(&mut self) -> (Option<String>, String, Value) {
        let (mut id, mut name, mut data) = (None, String::new(), Value::Null);
        loop {
            let line = self.line();
            match line.split_once(": ") {
                Some(("id", text)) => id = Some(text.into()),
                Some(("event", text)) => name = text.into(),
                Some(("data", text)) => data = serde_json::from_str(text).expect("JSON"),
                // A comment is a heartbeat, and an empty line behind it ends no event.
                _ if line.is_empty() && !name.is_empty() => return (id, name, data),
                _ => {}
            }
        }
    }
}

#[test]
fn feed_is_read_by_every_front_end() {
    let (_scratch, server) = start_server("feeds");
    tool(&server, &["bucket", "create", "orders", "feed=values"]);
    put(&server, "orders", "a", "1");
    put(&server, "orders", "b", "2");
    let first = page(&server, "values=true");
    assert_eq!(events(&first), ["put a", "put b"]);
    assert_eq!((&first["events"][1]["value"], &first["level"]), (&"2".into(), &true.into()));
    let from = token(&first);
    // One that waits, one that streams; both see what comes then.
    let waiting = std::thread::spawn({
        let (address, path) = (server.address, format!("{FEED}?from={from}&wait_ms=50000"));
        move || {
            let mut client =
                systest::client::Http::with_timeout(address, PATIENCE).expect("it listens");
            client.request("GET", &path, b"").expect("it answers").json()
        }
    });
    let mut stream = StreamLines::open(&server, &format!("from={from}"), "");
    assert_eq!(name(&stream.message()), "level");
    put(&server, "orders", "c", "3");
    assert_eq!(events(&waiting.join().expect("a page")), ["put c"]);
    assert_eq!(name(&stream.message()), "put c");
    let level = stream.message();
    assert_eq!(name(&level), "level");
    tool(&server, &["delete", "-b", "orders", "a"]);
    assert_eq!(name(&stream.message()), "delete a");
    let mut redis = resp(&server);
    let feed = redis.call_line(&format!("CREDENZA.FEED orders FROM {from}")).expect("an answer");
    let [of_bucket] = feed.list() else { panic!("{feed:?}") };
    assert_eq!(of_bucket.list()[0].bytes(), Some(&b"default/orders"[..]));
    let entries = of_bucket.list()[1].list();
    assert_eq!(entries.len(), 3, "two events and the place behind them: {entries:?}");
    let last = entries[2].list()[0].bytes().expect("a token");
    let command = format!("CREDENZA.FEED orders FROM {} BLOCK 50", String::from_utf8_lossy(last));
    assert_eq!(redis.call_line(&command).expect("an answer"), RespReply::List(None));
    let read = ["feed", "orders", "--from", &from, "--values"];
    assert_eq!(tool(&server, &read), "put\tc\t3\ndelete\ta\n");
    let json = tool(&server, &["feed", "orders", "--from", &token(&level), "--json"]);
    assert_eq!(name(&serde_json::from_str(&json).expect("one object")), "delete a");
}

#[test]
fn feed_refuses_what_it_can_not_serve() {
    let (_scratch, server) = start_server("feeds-refused");
    let off = must_fail(&server, &["feed", "default"], 2);
    assert!(off.contains("has no feed"), "{off}");
    for bucket in ["orders", "others"] {
        tool(&server, &["bucket", "create", bucket, "feed=keys"]);
    }
    let from = token(&page(&server, "from=now"));
    let others = must_fail(&server, &["feed", "others", "--from", &from], 2);
    assert!(others.contains("malformed_token"), "{others}");
    let nowhere = must_fail(&server, &["feed", "nowhere"], 2);
    assert!(nowhere.contains("no_such_bucket"), "{nowhere}");
    let too_long = http(&server).request("GET", &format!("{FEED}?wait_ms=55001"), b"");
    assert_eq!(too_long.expect("it answers").reason(), "malformed");
}

#[test]
fn stream_of_events_goes_on_behind_its_last_event_id() {
    const EVENTS: &str = "accept: text/event-stream\r\n";
    let (_scratch, server) = start_server("feeds-events");
    tool(&server, &["bucket", "create", "orders", "feed=values"]);
    page(&server, "");
    let mut stream = StreamLines::open(&server, "from=now&values=true", EVENTS);
    let (id, name, data) = stream.event();
    assert_eq!((id, &*name), (Some(token(&data)), "level"));
    put(&server, "orders", "a", "1");
    let (id, name, data) = stream.event();
    assert_eq!((id, &*name, &data["value"]), (None, "put", &"1".into()));
    let (id, name, _) = stream.event();
    assert_eq!(name, "level");
    let last_id = id.expect("a place to go on at");
    drop(stream);
    put(&server, "orders", "b", "2");
    let headers = format!("{EVENTS}last-event-id: {last_id}\r\n");
    let mut stream = StreamLines::open(&server, "from=start&values=true", &headers);
    let (_, name, data) = stream.event();
    assert_eq!((&*name, &data["key"]), ("put", &"b".into()), "nothing before, although asked for");
    assert_eq!(stream.event().1, "level");
}

#[test]
fn stream_ends_with_its_node() {
    let (_scratch, mut server) = start_server("feeds-end");
    tool(&server, &["bucket", "create", "orders", "feed=keys"]);
    page(&server, "");
    let mut stream = StreamLines::open(&server, "from=now", "");
    assert_eq!(name(&stream.message()), "level");
    let ended = server.stop(PATIENCE).expect("it stops although a stream is open");
    assert_eq!(ended.code(), Some(0));
    let mut rest = String::new();
    while stream.0.read_line(&mut rest).is_ok_and(|bytes| bytes > 0) {}
    assert!(rest.trim().is_empty(), "no half message: {rest}");
}

/// Starts a copy that follows.
fn start_copy(server: &Server) -> Child {
    let mut command = server.tool(&["copy", "orders", "copy", "--follow"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

/// Returns the rows of a bucket, without the states of copies.
fn rows(server: &Server, bucket: &str) -> Vec<String> {
    let rows = tool(server, &["range", "-b", bucket, "--limit", "0"]);
    rows.lines().filter(|row| !row.starts_with(STATE_KEYS)).map(String::from).collect()
}

#[test]
fn copy_that_is_killed_again_and_again_ends_equal_to_its_source() {
    let (_scratch, server) = start_server("feeds-copy");
    tool(&server, &["bucket", "create", "orders", "feed=keys"]);
    tool(&server, &["bucket", "create", "copy"]);
    let mut client = http(&server);
    let mut set = |key: usize, value: usize| {
        let path = format!("/v1/buckets/default/orders/keys/k{key:03}");
        let answer = match value % 7 {
            0 => client.request("DELETE", &path, b""),
            _ => client.request("PUT", &path, format!("v{value}").as_bytes()),
        };
        assert!(matches!(answer.expect("it answers").status, 204 | 404));
    };
    let mut copied = Vec::new();
    for round in 0..6 {
        let mut copy = start_copy(&server);
        for step in 0..200 {
            set((step * 13 + round) % 150, round * 200 + step);
        }
        // It is killed at work: behind its first records, and while others come.
        wait_until("more of the copy", || {
            let now = rows(&server, "copy");
            if now == copied { Err(format!("{} rows", now.len())) } else { Ok(()) }
        });
        copy.kill().expect("it runs until it is killed");
        copy.wait().expect("it is a child");
        copied = rows(&server, "copy");
    }
    tool(&server, &["copy", "orders", "copy"]);
    let expected = rows(&server, "orders");
    assert!(expected.len() > 100, "{} rows", expected.len());
    assert_eq!(rows(&server, "copy"), expected);
    let state = tool(&server, &["keys", "-b", "copy", "--prefix", STATE_KEYS]);
    assert_eq!(state.trim(), format!("{STATE_KEYS}default/orders"));
    let again = tool(&server, &["copy", "orders", "copy"]);
    assert_eq!(again, "0 keys written, 0 deleted\n", "it knows where it was");
}

#[test]
fn copy_removes_what_does_not_come_again_after_a_restart() {
    let (_scratch, server) = start_server("feeds-restart");
    tool(&server, &["bucket", "create", "orders", "feed=keys"]);
    tool(&server, &["bucket", "create", "copy"]);
    for key in ["a", "b", "c"] {
        put(&server, "orders", key, "1");
    }
    assert_eq!(tool(&server, &["copy", "orders", "copy"]), "3 keys written, 0 deleted\n");
    // No event tells of the keys that a clear removes.
    tool(&server, &["bucket", "clear", "orders", "--yes"]);
    put(&server, "orders", "b", "2");
    let copied = tool(&server, &["copy", "orders", "copy"]);
    assert_eq!(copied, "1 key written, 0 deleted, 2 removed that the source lacks\n");
    assert_eq!(rows(&server, "copy"), ["b\t2"]);
}

#[test]
fn copy_takes_no_target_with_other_keys_and_no_second_copy() {
    let (_scratch, server) = start_server("feeds-targets");
    tool(&server, &["bucket", "create", "orders", "feed=keys"]);
    put(&server, "orders", "a", "1");
    put(&server, "default", "other", "1");
    let full = must_fail(&server, &["copy", "orders", "default"], 4);
    assert!(full.contains("--overwrite"), "{full}");
    let itself = must_fail(&server, &["copy", "orders", "orders"], 2);
    assert!(itself.contains("no copy of itself"), "{itself}");
    let copied = tool(&server, &["copy", "orders", "default", "--overwrite"]);
    assert_eq!(copied, "1 key written, 0 deleted, 1 removed that the source lacks\n");
    assert_eq!(rows(&server, "default"), ["a\t1"]);
    // Something else writes the state: this copy is not alone.
    let mut copy = server.tool(&["copy", "orders", "default", "--follow"]);
    copy.stdout(Stdio::null()).stderr(Stdio::piped());
    let copy = copy.spawn().expect("it starts");
    wait_until("the copy's notice of another one", || {
        put(&server, "default", &format!("{STATE_KEYS}default/orders"), "{}");
        put(&server, "orders", "a", "2");
        if copy_has_ended(copy.id()) { Ok(()) } else { Err("it goes on".into()) }
    });
    let ended = copy.wait_with_output().expect("it is a child");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(4), "{text}");
    let says = ["another copy writes to", "no state of a copy"];
    assert!(says.iter().any(|words| text.contains(words)), "{text}");
}

/// Returns true if a child has ended and is not waited for.
fn copy_has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'))
}

#[test]
fn copy_keeps_siblings_where_the_target_can_hold_them() {
    const CARTS: &str = "available/carts";
    let (_scratch, server) = start_server("feeds-siblings");
    tool(&server, &["bucket", "create", CARTS, "feed=keys"]);
    for value in ["tea", "milk"] {
        tool(&server, &["put", "-b", CARTS, "ann", value, "--beside"]);
    }
    put(&server, CARTS, "bob", "figs");
    tool(&server, &["copy", CARTS, "available/copy"]);
    let values = |bucket: &str| {
        let path = format!("/v1/buckets/{bucket}/siblings/ann");
        let found = http(&server).request("GET", &path, b"").expect("it answers").json();
        let siblings = found["siblings"].as_array().cloned().unwrap_or_default();
        let mut values: Vec<String> =
            siblings.iter().map(|sibling| sibling["value"].to_string()).collect();
        values.sort_unstable();
        values
    };
    assert_eq!(values("available/copy"), ["\"milk\"", "\"tea\""]);
    assert_eq!(values("available/copy"), values(CARTS));
    tool(&server, &["bucket", "create", "copy"]);
    let refused = must_fail(&server, &["copy", CARTS, "copy"], 4);
    assert!(refused.contains("the key ann has 2 siblings"), "{refused}");
    tool(&server, &["copy", CARTS, "copy", "--newest"]);
    assert_eq!(rows(&server, "copy"), ["ann\tmilk", "bob\tfigs"]);
    tool(&server, &["delete", "-b", CARTS, "bob"]);
    tool(&server, &["copy", CARTS, "copy", "--newest"]);
    assert_eq!(rows(&server, "copy"), ["ann\tmilk"]);
}

#[test]
fn feed_command_ends_by_signal_with_the_token_to_go_on_with() {
    let (_scratch, server) = start_server("feeds-signal");
    tool(&server, &["bucket", "create", "orders", "feed=keys"]);
    put(&server, "orders", "a", "1");
    let mut follow = server.tool(&["feed", "orders", "--follow"]);
    let follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut follow = follow.spawn().expect("it starts");
    let mut lines = BufReader::new(follow.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("an event").expect("text");
    assert_eq!(first, "put\ta");
    systest::server::signal(follow.id(), rustix::process::Signal::TERM);
    let ended = follow.wait_with_output().expect("it is a child");
    let notes = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{notes}");
    let (_, from) = notes.trim().rsplit_once("go on with --from ").expect("its place");
    put(&server, "orders", "b", "1");
    let rest = output(server.tool(&["feed", "orders", "--from", from]));
    assert_eq!(String::from_utf8_lossy(&rest.stdout), "put\tb\n");
}

#[test]
fn page_about_feeds_shows_the_answers_of_its_commands() {
    let name = "the page about feeds";
    if let Some(reason) = missing(Root::Needed, &["unshare", "ip", "redis-cli"]) {
        return skipped(name, &reason);
    }
    let page = systest::tidy::root().join("docs/use/feed.md");
    let page = TypedPage::parse(&std::fs::read_to_string(page).expect("the page is there"));
    assert!(page.commands() > 15, "the page's commands were not found: {}", page.commands());
    page.type_in("feeds-page").must_match_the_page();
}

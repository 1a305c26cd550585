//! Declared indexes, as users of the command line, of HTTP and of Redis' protocol meet them, and
//! the page about them.

use super::typed_pages::TypedPage;
use super::{http, must_fail, output, resp, start_server, tool};
use serde_json::{Value, json};
use systest::client::RespReply;
use systest::cluster::wait_until;
use systest::environment::{Root, missing};
use systest::report::skipped;
use systest::server::Server;

const INDEX: &str = "/v1/buckets/default/coupons/index/by-count";
const INDEXES: &str = "/v1/buckets/default/coupons/indexes";

fn put(server: &Server, key: &str, value: &Value) {
    tool(server, &["put", "-b", "coupons", key, &value.to_string()]);
}

/// Returns the answer to a query of the index of counts.
fn page(server: &Server, parameters: &str) -> Value {
    let answer = http(server).request("GET", &format!("{INDEX}?{parameters}"), b"");
    let answer = answer.expect("it answers");
    assert_eq!(answer.status, 200, "{parameters}: {}", answer.text());
    answer.json()
}

fn keys(page: &Value) -> Vec<&str> {
    let rows = page["rows"].as_array().into_iter().flatten();
    rows.map(|row| row["key"].as_str().unwrap_or_default()).collect()
}

/// Fills a bucket with coupons `c0` to `c9`, of which `cN` was redeemed `N / 2` times.
fn fill(server: &Server) {
    tool(server, &["bucket", "create", "coupons"]);
    for number in 0..10 {
        let code = format!("code-{number}");
        put(server, &format!("c{number}"), &json!({ "code": code, "count": number / 2 }));
    }
}

#[test]
fn index_is_created_and_queried_by_every_front_end() {
    let (_scratch, mut server) = start_server("indexes");
    fill(&server);
    let spec = json!({ "name": "by-count", "path": "$.count", "type": "int" }).to_string();
    let created = http(&server).request("POST", INDEXES, spec.as_bytes()).expect("it answers");
    assert_eq!(created.status, 201, "{}", created.text());
    let args = ["index", "status", "coupons", "by-count", "--follow", "--json"];
    let status: Value = serde_json::from_str(&tool(&server, &args)).expect("JSON");
    assert_eq!((&status["state"], &status["number"]), (&"ready".into(), &1.into()));
    assert_eq!(keys(&page(&server, "equals=3")), ["c6", "c7"]);
    assert_eq!(keys(&page(&server, "from=1&to=2")), ["c2", "c3"]);
    assert_eq!(keys(&page(&server, "from=3&from_exclusive=true&reverse=true")), ["c9", "c8"]);
    let records = page(&server, "equals=0&want=records&limit=1");
    let row = &records["rows"][0];
    assert_eq!((&row["key"], &row["term"]), (&"c0".into(), &"0".into()));
    assert_eq!(row["value"], r#"{"code":"code-0","count":0}"#);
    let mut found: Vec<String> = Vec::new();
    let mut parameters = String::from("limit=3");
    loop {
        let page = page(&server, &parameters);
        found.extend(keys(&page).iter().map(|key| key.to_string()));
        let Some(after) = page["continue"].as_str() else { break };
        assert_eq!((found.len() % 3, &page["more"]), (0, &true.into()));
        parameters = format!("limit=3&after={after}");
    }
    let all: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    assert_eq!(found, all);
    let other = format!("{INDEX}?from=1&{}", parameters);
    let refused = http(&server).request("GET", &other, b"").expect("it answers");
    assert_eq!((refused.status, refused.reason().as_str()), (400, "malformed"));
    let stream = http(&server).request("GET", &format!("{INDEX}/stream?from=4&want=terms"), b"");
    let lines = "{\"key\":\"c8\",\"term\":\"4\"}\n{\"key\":\"c9\",\"term\":\"4\"}\n";
    assert_eq!(stream.expect("it answers").text(), lines);
    let query = ["index", "query", "coupons", "by-count"];
    let ask = |args: &[&str]| tool(&server, &[&query[..], args].concat());
    assert_eq!(ask(&["--from", "4", "--terms"]), "c8\t4\nc9\t4\n");
    assert_eq!(ask(&["--limit", "0"]), all.join("\n") + "\n");
    assert_eq!(ask(&["--equals", "4", "--reverse", "--json", "-n1"]), "{\"key\":\"c9\"}\n");
    let mut redis = resp(&server);
    redis.call_line("CREDENZA.BUCKET coupons").expect("an answer");
    let range = redis.call_line("CREDENZA.INDEX RANGE by-count [4 + TERMS").expect("an answer");
    let bulk = |text: &str| RespReply::Bulk(Some(text.into()));
    let rows = RespReply::List(Some(["c8", "4", "c9", "4"].map(bulk).to_vec()));
    assert_eq!(range.list(), [RespReply::Bulk(None), rows]);
    put(&server, "c9", &json!({ "count": 100 }));
    tool(&server, &["delete", "-b", "coupons", "c8"]);
    server.kill();
    let server = Server::must_start(&server.setup);
    wait_until("the index after a crash", || {
        let args = ["index", "query", "coupons", "by-count", "--from", "3", "--terms"];
        let result = output(server.tool(&args));
        let shown = String::from_utf8_lossy(&result.stdout).into_owned();
        if shown == "c6\t3\nc7\t3\nc9\t100\n" { Ok(()) } else { Err(shown) }
    });
}

#[test]
fn unique_and_strict_indexes_refuse_and_a_dropped_one_is_gone() {
    let (_scratch, server) = start_server("indexes-unique");
    fill(&server);
    let create = ["index", "create", "coupons", "by-code", "--path", "$.code", "--type", "string"];
    tool(&server, &[&create[..], &["--unique", "--strict", "--wait"]].concat());
    let taken = ["put", "-b", "coupons", "new", r#"{"code":"code-7"}"#];
    let refused = must_fail(&server, &taken, 4);
    assert!(refused.contains("`by-code` is unique, and the key `c7` has the same"), "{refused}");
    let refused = must_fail(&server, &["put", "-b", "coupons", "new", "{}"], 2);
    assert!(refused.contains("`by-code` is strict"), "{refused}");
    let other = must_fail(&server, &create, 4);
    assert!(other.contains("another definition"), "{other}");
    let query = ["index", "query", "coupons", "by-code", "--prefix", "code-"];
    assert_eq!(tool(&server, &query).lines().count(), 10, "nothing of the refused is there");
    // Counts come in pairs: no unique index can be built of them.
    let pairs = ["index", "create", "coupons", "by-count", "--path", "$.count", "--type", "int"];
    let failed = must_fail(&server, &[&pairs[..], &["--unique", "--wait"]].concat(), 4);
    assert!(failed.contains("could not be built"), "{failed}");
    let failed = http(&server).request("GET", INDEX, b"").expect("it answers");
    assert_eq!((failed.status, failed.reason().as_str()), (409, "index_failed"));
    for name in ["by-count", "by-code"] {
        tool(&server, &["index", "drop", "coupons", name, "--wait"]);
    }
    assert_eq!(tool(&server, &["index", "list", "coupons", "--json"]).trim(), "[]");
    let gone = must_fail(&server, &query, 2);
    assert!(gone.contains("no index `by-code` in `default/coupons`: create it"), "{gone}");
    tool(&server, &taken);
}

#[test]
fn index_of_an_available_bucket_shows_siblings_and_takes_its_options() {
    const FRUIT: &str = "available/fruit";
    let (_scratch, server) = start_server("indexes-available");
    for (key, count) in [("fig", 1), ("fig", 2), ("nut", 3)] {
        let value = json!({ "count": count }).to_string();
        tool(&server, &["put", "-b", FRUIT, key, &value, "--beside"]);
    }
    let create = ["index", "create", FRUIT, "by-count", "--path", "$.count", "--type", "int"];
    tool(&server, &[&create[..], &["--wait"]].concat());
    let get = |path: &str| {
        let path = format!("/v1/buckets/{FRUIT}/{path}");
        http(&server).request("GET", &path, b"").expect("it answers")
    };
    let options = "r=quorum&partial=true&timeout_ms=5000";
    let page = get(&format!("index/by-count?equals=2&want=records&{options}")).json();
    let (row, found) = (&page["rows"][0], get("siblings/fig").json());
    assert_eq!((&row["key"], &row["term"]), (&"fig".into(), &"2".into()));
    assert_eq!((&row["context"], &row["siblings"]), (&found["context"], &found["siblings"]));
    assert_eq!(row["siblings"].as_array().map(Vec::len), Some(2), "{page}");
    assert_eq!(page["partial"], false);
    let stream = get(&format!("index/by-count/stream?{options}"));
    let lines = "{\"key\":\"fig\"}\n{\"key\":\"fig\"}\n{\"key\":\"nut\"}\n";
    assert_eq!(stream.text(), lines, "nothing is missing, so no line says so");
    let refused = get("index/by-count?r=200");
    assert_eq!((refused.status, refused.reason().as_str()), (400, "malformed"));
    let query = ["index", "query", FRUIT, "by-count", "--records"];
    let ask = |args: &[&str]| tool(&server, &[&query[..], args].concat());
    let nut = ask(&["--equals", "3", "--r", "all", "--partial", "--timeout-ms", "5000"]);
    assert_eq!(nut, "nut\t3\t{\"count\":3}\n");
    let fig = ask(&["--equals", "1"]);
    let mut lines: Vec<&str> = fig.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["fig\t1\t{\"count\":1}", "fig\t1\t{\"count\":2}"]);
    // A consistent bucket has no owners to ask.
    tool(&server, &["bucket", "create", "coupons"]);
    for option in [&["--r", "one"][..], &["--partial"], &["--timeout-ms", "5000"]] {
        let args = [&["index", "query", "coupons", "by-count"], option].concat();
        let refused = must_fail(&server, &args, 2);
        assert!(refused.contains("a query of a consistent bucket takes no"), "{refused}");
    }
    let refused = http(&server).request("GET", &format!("{INDEX}?partial=true"), b"");
    let refused = refused.expect("it answers");
    assert_eq!((refused.status, refused.reason().as_str()), (400, "not_supported"));
}

#[test]
fn page_about_indexes_shows_the_answers_of_its_commands() {
    let name = "the page about indexes";
    if let Some(reason) = missing(Root::Needed, &["unshare", "ip", "redis-cli", "curl"]) {
        return skipped(name, &reason);
    }
    let page = systest::tidy::root().join("docs/use/indexes.md");
    let page = TypedPage::parse(&std::fs::read_to_string(page).expect("the page is there"));
    assert!(page.commands() > 20, "the page's commands were not found: {}", page.commands());
    page.type_in("indexes-page").must_match_the_page();
}

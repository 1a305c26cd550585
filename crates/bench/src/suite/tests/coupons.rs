//! Tests of the experiment of coupons as a measure: its settings, its tables, and goals of several
//! servers.

use super::super::coupons;
use super::super::goals::verdicts;
use super::super::tables::unmeasured;
use super::*;

const EXPERIMENT: &str = r#"
name = "try"
document = "performance/coupons.md"
[quick]
share = 0.02
[server.declared]
command = ["a"]
driver = { driver = "resp", resp_index = "by-count" }
[server.tags]
command = ["a"]
driver = { driver = "riak", riak_tag = "redeemed_count" }
queries = { driver = "resp", resp_address = "127.0.0.1:{leader}", resp_index = "n_int" }
[server.pouchdb]
command = ["b"]
driver = { driver = "couchdb", couchdb_database = "c", couchdb_member = "redeemed_count" }
[[measure]]
name = "coupons"
servers = ["declared", "tags", "pouchdb"]
clients = [64]
bounds = [
  { figure = "load s", servers = ["declared", "tags"], at_most = 5.0 },
  { figure = "query ms", at_most = 50.0 },
]
[measure.coupons]
published = [{ name = "CouchDB", figures = { "load s" = "495", "query ms" = "11,000" } }]
[[measure]]
name = "updated"
servers = ["declared"]
clients = [64]
coupons = { documents = 100000, updates = 5000000 }
"#;

fn run(figures: &[(&str, f64)]) -> Run {
    let figures = figures.iter().map(|(name, value)| (name.to_string(), *value));
    Run { figures: figures.collect(), version: "v1".into(), ..Run::default() }
}

#[test]
fn figures_of_coupons_stand_beside_published_ones_and_goals_name_their_servers() {
    let suite = read(EXPERIMENT).expect("whole");
    let mut results = Results::new(&suite, "now".into(), "c0ffee".into(), Machine::default());
    for (server, load, query) in
        [("declared", 3.25, 12.0), ("tags", 7.5, 70.0), ("pouchdb", 9.6, 900.0)]
    {
        let figures = [(coupons::LOAD, load), (coupons::QUERY, query), (coupons::ROWS, 4_992.0)];
        results.add("coupons", server, 64, false, run(&figures));
    }
    let text = markdown(&suite, &results, "", None);
    for wanted in [
        "| server | rounds | load s | server us/document | first query ms | query ms |",
        "| CouchDB, published |  | 495 |  |  | 11,000 |",
        "| declared | 1 | 3.25 |  |  | 12 |  |  | 4,992 | 0 |",
        "| pouchdb | 1 | 9.6 |  |  | 900 |",
        "| coupons, tags: load s | 7.50 | at most 5 | **no** |",
        "| coupons: query ms | 12.00 | at most 50 | yes |",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(charts(&points(&suite, &results)[0].1, &results).expect("drawn").is_empty());
    let goals = verdicts(&suite.measures[0], &results);
    let servers: Vec<_> = goals.iter().map(|goal| goal.server.as_str()).collect();
    assert_eq!(servers, ["declared", "tags", "declared"]);
    let page = unmeasured(&suite);
    assert!(page.contains("| CouchDB, published | 495 |  | 11,000 |"), "{page}");
}

#[test]
fn updates_are_whole_rounds_of_which_a_quick_run_does_a_share() {
    for (quick, updates, has_updates) in
        [(false, "5000000", true), (true, "5000000", true), (true, "10", true), (true, "0", false)]
    {
        let overrides = LoadOverrides { quick, ..LoadOverrides::default() };
        let text = EXPERIMENT.replace("updates = 5000000", &format!("updates = {updates}"));
        let items = Items::parse("s.toml", &text).expect("whole");
        let suite = Suite::read(items, &overrides).expect("whole");
        let Work::Coupons(work) = &suite.measures[1].work else { panic!("coupons") };
        assert_eq!(work.has_updates(), has_updates, "{quick} {updates}");
    }
}

#[test]
fn invalid_experiments_are_rejected_when_the_suite_is_read() {
    for (from, to, expected) in [
        ("resp_index = \"by-count\" }", "resp_bucket = \"b\" }", "`declared` needs an index for"),
        ("queries = {", "survivors = {", "the server `tags` needs an index for `coupons`"),
        ("[\"declared\", \"tags\"], at", "[\"declared\", \"tag\"], at", "there is no server `tag`"),
        ("documents = 100000", "documents = 0", "`documents` wants a whole number from 1"),
        ("documents = 100000", "document = 100000", "there is no key `document` here, is"),
        ("\"load s\" = \"495\"", "\"load s\" = 495", "wants a text"),
        ("updates = 5000000", "key_query_time = 0", "wants a `key_query_time` above 0"),
    ] {
        let error = read(&EXPERIMENT.replace(from, to)).err().unwrap_or_default();
        assert!(error.contains(expected), "{from}: {error}");
    }
}

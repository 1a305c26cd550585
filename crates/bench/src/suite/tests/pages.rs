//! Tests of pages over all suites: what falls short is said first, and a suite without results has
//! a page that says how to measure it.

use super::super::output::write_pages;
use super::super::overview::{bundled_suites, measured_suites, verdicts};
use super::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A folder of documents, removed on drop.
struct Documents(PathBuf);

impl Documents {
    fn new(name: &str) -> Documents {
        let folder =
            std::env::temp_dir().join(format!("bench-pages-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("created");
        Documents(folder)
    }

    /// Adds one run of a measure of a bundled suite, with its smallest number of clients.
    fn add(&self, suite_name: &str, measure: &str, throughput: f64) {
        let suites = bundled_suites().expect("whole");
        let suite = suites.iter().find(|suite| suite.name == suite_name).expect("bundled");
        let found = suite.measures.iter().find(|other| other.name == measure);
        let (server, clients) =
            found.map(|found| (&found.servers[0], found.clients[0])).expect("a measure");
        let mut results = Results::new(suite, "now".into(), "c0ffee".into(), Machine::default());
        results.add(measure, server, clients, false, Run { throughput, ..Run::default() });
        write_document(suite, &results, &self.0).expect("written");
    }

    fn text(&self, page: &str) -> String {
        std::fs::read_to_string(self.0.join(page)).expect(page)
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("removed");
    }
}

#[test]
fn what_falls_short_in_any_suite_stands_first_on_the_page_of_all() {
    let documents = Documents::new("overview");
    documents.add("performance", "import of 5 M records", 600_000.0);
    documents.add("both-cores", "put, available, three nodes, both cores", 20_000.0);
    write_pages(&documents.0).expect("written");
    let text = documents.text("performance.md");
    let miss = "| put, available, three nodes, both cores, 64 clients: rate | 20k | at least 25k | \
                not looked into yet |";
    assert!(text.contains(miss), "{text}");
    let goal = "| import of 5 M records: rate | 600k | at least 500k | yes | \
                [performance](performance.md) |";
    assert!(text.contains(goal), "{text}");
    let (missed, goals) = (text.find("## Missed goals"), text.find("## Goals"));
    assert!(missed.is_some() && missed < goals, "{text}");
    assert!(text.contains("[both-cores](performance/both-cores.md)"));
    // A flame graph that is there is linked.
    let (suite, results) = measured_suites(&documents.0)
        .expect("whole")
        .into_iter()
        .find(|(suite, _)| suite.name == "both-cores")
        .expect("measured");
    let graph = verdicts(&suite, &results)[0].flame_graph();
    let name = "both-cores-put--available--three-nodes--both-cores-64.svg";
    assert_eq!(graph, Path::new("performance/flames").join(name));
    std::fs::create_dir_all(documents.0.join("performance/flames")).expect("created");
    std::fs::write(documents.0.join(&graph), "<svg/>").expect("written");
    write_pages(&documents.0).expect("written");
    assert!(
        documents.text("performance.md").contains(&format!("([flame graph]({}))", graph.display()))
    );
}

#[test]
fn suite_without_results_has_a_page_that_says_how_to_measure_it() {
    let documents = Documents::new("unmeasured");
    std::fs::create_dir_all(documents.0.join("performance")).expect("created");
    write_pages(&documents.0).expect("written");
    let growth = documents.text("performance/growth.md");
    assert!(growth.contains("**Not measured yet.** `make bench SUITE=growth`"), "{growth}");
    assert!(growth.contains("- 64 million rows"), "{growth}");
    let arakoon = documents.text("performance/arakoon.md");
    for row in [
        "| Arakoon 1.4.3, published | 294 | 900 | 2,180 |",
        "| Arakoon 1.6.0, published | 676 | 2,470 | 4,700 |",
        "| Arakoon 1.6.0, published | 20,600 |",
    ] {
        assert!(arakoon.contains(row), "{row}: {arakoon}");
    }
    assert!(!arakoon.contains("times ours"), "{arakoon}");
    let coupons = documents.text("performance/coupons.md");
    let couchdb = "| CouchDB, a view, published | 495 | 74,000 | 11,000 |";
    assert!(coupons.contains(couchdb), "{coupons}");
}

#[test]
fn documents_and_works_of_bundled_suites_have_names_of_their_own() {
    let suites = bundled_suites().expect("whole");
    let documents: Vec<_> = suites.iter().filter_map(|suite| suite.document.as_ref()).collect();
    assert_eq!(documents.iter().collect::<BTreeSet<_>>().len(), documents.len());
    for suite in &suites {
        let measures = suite.measures.iter().map(|measure| &measure.name);
        let works: Vec<_> = measures.chain(suite.soaks.iter().map(|soak| &soak.name)).collect();
        let names: BTreeSet<_> = works.iter().collect();
        assert_eq!(names.len(), works.len(), "{}", suite.name);
    }
    // The names of suites in the list and in their files.
    for ((name, _), suite) in SUITES.iter().zip(&suites) {
        assert_eq!(*name, suite.name);
    }
}

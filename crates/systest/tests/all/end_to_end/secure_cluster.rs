//! The page of the first secure cluster, typed literally into a shell.

use super::typed_pages::TypedPage;
use std::time::{Duration, Instant};
use systest::environment::{Root, missing};
use systest::report::{Figures, skipped};

const PAGE: &str = "docs/run/first-secure-cluster.md";
/// Time that the page promises, for a person who reads it: a shell needs far less.
const PROMISE: Duration = Duration::from_secs(600);

#[test]
fn first_secure_cluster_comes_up_as_the_page_says() {
    let name = "the first secure cluster";
    let tools = ["unshare", "ip", "redis-cli", "curl", "openssl"];
    if let Some(reason) = missing(Root::Needed, &tools) {
        return skipped(name, &reason);
    }
    let text = std::fs::read_to_string(systest::tidy::root().join(PAGE)).expect("it is there");
    let page = TypedPage::parse(&text);
    assert!(page.commands() > 25, "the page's commands were not found: {}", page.commands());
    let (mut figures, started) = (Figures::start(name), Instant::now());
    figures.ok = page.commands() as u64;
    page.type_in("first-secure").must_succeed_with_the_shown_answers();
    assert!(started.elapsed() < PROMISE, "{:?}", started.elapsed());
    figures.print();
}

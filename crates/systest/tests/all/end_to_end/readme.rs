//! The README's five minutes, typed literally into a shell, with the answers compared with those of
//! the README.

use super::typed_pages::TypedPage;
use systest::environment::{Root, missing};
use systest::report::skipped;

/// Heading of the part of the README that is typed.
const SECTION_START: &str = "## Five minutes";
const SECTION_END: &str = "\n## ";

#[test]
fn readme_commands_produce_the_printed_answers() {
    let name = "the README's five minutes";
    if let Some(reason) = missing(Root::Needed, &["unshare", "ip", "redis-cli", "curl"]) {
        return skipped(name, &reason);
    }
    let readme = std::fs::read_to_string(systest::tidy::root().join("README.md")).expect("there");
    let start = readme.find(SECTION_START).expect("the README has its five minutes");
    let part = &readme[start + SECTION_START.len()..];
    let page = TypedPage::parse(&part[..part.find(SECTION_END).unwrap_or(part.len())]);
    assert!(page.commands() > 20, "the README's commands were not found: {}", page.commands());
    page.type_in("readme").must_match_the_page();
}

//! Runs the rules of the source tree. Each message says how to correct a violation.

use systest::tidy::{self, Complaint, Exception, Workspace};

/// Files and functions that may be longer, each with its reason. Numbers only shrink, lines are
/// only removed.
const EXCEPTIONS: &[Exception] = &[];

/// Names of types that are still to be improved. The list only shrinks, until it is empty.
const POOR_NAMES: &[&str] = &[];

fn holds(rule: impl Fn(&Workspace) -> Vec<Complaint>) {
    let complaints = rule(&Workspace::read(&tidy::root()));
    let words: Vec<_> = complaints.iter().map(|complaint| format!("  {complaint}")).collect();
    assert!(complaints.is_empty(), "{} to mend:\n{}", words.len(), words.join("\n"));
}

#[test]
fn crates_import_only_what_the_table_allows() {
    holds(tidy::imports);
}

#[test]
fn crates_say_no_forbidden_word() {
    holds(tidy::forbidden_words);
}

#[test]
fn subjects_of_logic_do_not_import_each_other() {
    holds(tidy::subjects);
}

#[test]
fn modules_of_a_crate_import_each_other_in_no_circle() {
    holds(tidy::circles);
}

#[test]
fn types_have_names_of_their_own() {
    holds(|workspace| tidy::type_names(workspace, POOR_NAMES));
}

#[test]
fn files_functions_and_lines_are_short() {
    holds(|workspace| tidy::lengths(workspace, EXCEPTIONS));
}

#[test]
fn every_file_begins_with_a_head_comment() {
    holds(tidy::file_heads);
}

#[test]
fn documentation_begins_with_a_noun_or_a_verb() {
    holds(tidy::documentation);
}

#[test]
fn selects_are_biased_and_nothing_is_left_lying_about() {
    holds(tidy::small_things);
}

#[test]
fn every_path_the_architecture_names_exists() {
    holds(tidy::architecture);
}

#[test]
fn walks_are_short_and_name_each_file_once() {
    holds(tidy::walks);
}

#[test]
fn every_link_resolves() {
    holds(tidy::links);
}

#[test]
fn every_setting_is_in_the_docs() {
    holds(tidy::settings);
}

#[test]
fn every_story_is_played() {
    holds(tidy::stories);
}

#[test]
fn every_decision_is_in_the_index() {
    holds(tidy::decisions);
}

#[test]
fn every_format_on_disk_has_a_kept_example() {
    holds(tidy::formats);
}

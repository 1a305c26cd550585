//! Runs the rules of the source tree. Each message says how to correct a violation.

use systest::tidy::{self, Complaint, Exception, Workspace};

/// Files and functions that may be longer, each with its reason. Numbers only shrink, lines are
/// only removed.
const EXCEPTIONS: &[Exception] = &[];

/// Names of types that are still to be improved. The list only shrinks, until it is empty.
const POOR_NAMES: &[&str] = &[];

fn must_hold(rule: impl Fn(&Workspace) -> Vec<Complaint>) {
    let complaints = rule(&Workspace::read(&tidy::root()));
    let lines: Vec<_> = complaints.iter().map(|complaint| format!("  {complaint}")).collect();
    assert!(complaints.is_empty(), "{} to mend:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn crates_import_only_allowed_crates() {
    must_hold(tidy::imports);
}

#[test]
fn crates_are_not_larger_than_their_bound() {
    must_hold(tidy::crate_sizes);
}

#[test]
fn crates_contain_no_forbidden_word() {
    must_hold(tidy::forbidden_words);
}

#[test]
fn logic_subjects_do_not_import_each_other() {
    must_hold(tidy::subjects);
}

#[test]
fn module_imports_have_no_cycle() {
    must_hold(tidy::import_cycles);
}

#[test]
fn type_names_are_nouns_used_at_most_twice() {
    must_hold(|workspace| tidy::type_names(workspace, POOR_NAMES));
}

#[test]
fn files_functions_and_lines_are_short() {
    must_hold(|workspace| tidy::lengths(workspace, EXCEPTIONS));
}

#[test]
fn every_file_begins_with_a_head_comment() {
    must_hold(tidy::file_heads);
}

#[test]
fn documentation_begins_with_a_noun_or_a_verb() {
    must_hold(tidy::documentation);
}

#[test]
fn selects_are_biased_and_no_unwrap_todo_or_dbg_remains() {
    must_hold(tidy::forbidden_leftovers);
}

#[test]
fn every_path_the_architecture_names_exists() {
    must_hold(tidy::architecture);
}

#[test]
fn walkthroughs_are_short_and_visit_each_file_once() {
    must_hold(tidy::walkthroughs);
}

#[test]
fn every_link_resolves() {
    must_hold(tidy::links);
}

#[test]
fn every_setting_is_in_the_docs() {
    must_hold(tidy::settings);
}

#[test]
fn every_story_file_is_played_by_a_test() {
    must_hold(tidy::stories);
}

#[test]
fn every_decision_is_in_the_index() {
    must_hold(tidy::decisions);
}

#[test]
fn every_format_on_disk_has_a_kept_example() {
    must_hold(tidy::formats);
}

//! Tests of limits: the tests that try each limit, or the reason why none does; the last column of
//! the page of limits.

use std::fs;
use std::path::Path;
use systest::tidy;

/// Names of tests, or a reason in words.
#[derive(Clone, Copy)]
enum Tried {
    By(&'static [&'static str]),
    Not(&'static str),
}

use Tried::{By, Not};

const STEPS: &[&str] = &[
    "steps_and_bytes_of_a_sequence_end_exactly_at_their_limits",
    "sequences_end_at_their_steps_however_they_are_written",
    "transactions_end_at_their_commands",
];
const PATTERNS: &[&str] = &["patterns_end_exactly_at_their_limits"];
const UPDATE: &[&str] =
    &["steps_and_bytes_of_a_sequence_end_exactly_at_their_limits", "an_update_ends_at_its_bytes"];
const SLOW: &[&str] = &["slow_clients_are_closed_at_the_limits_and_others_do_not_feel_them"];
const TOKENS: &[&str] = &["what_could_be_guessed_or_is_no_text_is_no_token"];
const UNDECIDED: &str = "as_many_updates_wait_undecided_as_the_limit_says_and_one_more_is_refused";
const BYTES: &str = "updates_are_refused_as_soon_as_the_limit_of_bytes_is_reached";
const CURSORS: Tried = By(&["the_table_is_bounded_in_entries_and_in_bytes"]);

/// Limits and settings by name. Those of messages between nodes are below.
const TRIED: &[(&str, Tried)] = &[
    ("KEY_BYTES_MAX", By(&["keys_end_exactly_at_the_limit_at_both_doors"])),
    ("OPERATORS_MAX", By(&["operators_and_this_machine_are_not_kept_out_by_others"])),
    ("PATTERN_BYTES_MAX", By(PATTERNS)),
    ("PATTERNS_MAX", By(PATTERNS)),
    ("VALUE_BYTES_MAX", By(&["values_end_exactly_at_the_limit_at_both_doors"])),
    ("SEQUENCE_STEPS_MAX", By(STEPS)),
    (
        "SEQUENCE_DEPTH_MAX",
        By(&["names_and_nesting_end_at_their_limits", "sequences_nest_to_their_depth"]),
    ),
    ("UPDATE_BYTES_MAX", By(UPDATE)),
    ("ROW_OVERHEAD_BYTES", Not("no bound of its own: a part of what `UPDATE_BYTES_MAX` counts")),
    (
        "KEYS_PER_READ_MAX",
        By(&[
            "keys_of_one_read_end_exactly_at_their_limit",
            "sequences_end_at_their_steps_however_they_are_written",
        ]),
    ),
    ("ANSWER_BYTES_MAX", By(&["the_answers_of_all_steps_together_are_bounded"])),
    ("GATHERED_BYTES_MIN", Not("a wait: `what_is_gathered_waits_for_room_in_line`")),
    (
        "EVALUATION_ROWS_MAX",
        By(&[
            "a_prefix_of_more_rows_than_an_update_may_look_at_is_left_whole",
            "sequences_end_at_their_steps_however_they_are_written",
        ]),
    ),
    (
        "EVALUATION_MS_MAX",
        By(&["the_clock_ends_what_takes_too_long_under_the_lock_and_nothing_else"]),
    ),
    ("SEQUENCE_ROWS_MAX", By(&["rows_are_counted_over_all_steps_and_undone_ones_count"])),
    ("PAGE_ROWS_MAX", By(&["pages_end_exactly_at_their_limits"])),
    ("VALUES_BYTES_MAX", By(&["values_of_many_keys_end_exactly_at_their_limit"])),
    ("WHOLE_RANGE_BYTES_MAX", By(&["a_whole_range_is_one_answer_or_too_large"])),
    ("PAGE_ROWS_DEFAULT", By(&["pages_end_exactly_at_their_limits"])),
    ("PAGE_BYTES_MAX", By(&["pages_end_exactly_at_their_limits"])),
    ("FRAME_BYTES_MAX", By(&["bodies_end_exactly_at_their_limits", "frames_end_at_their_size"])),
    (
        "PIPELINE_DEPTH_MAX",
        By(&[
            "a_pipeline_of_any_depth_is_answered_in_order",
            "pipelines_of_any_depth_are_answered_in_order",
        ]),
    ),
    ("JOIN_TOKEN_BYTES_MIN", By(TOKENS)),
    ("JOIN_TOKEN_BYTES_MAX", By(TOKENS)),
    ("JOIN_TOKEN_MS_DEFAULT", By(&["a_token_stands_only_if_that_is_said"])),
    ("JOIN_TOKEN_MS_MAX", By(&["a_token_stands_only_if_that_is_said"])),
    ("JOIN_TOKENS_MAX", By(&["tokens_end_by_themselves_and_are_bounded"])),
    (
        "MENDED_VALUES_MAX",
        Not("a member's own, no client reaches it: what lost more comes back as another node"),
    ),
    (
        "MENDED_BYTES_MAX",
        Not("a member's own, no client reaches it: what lost more says so and ends"),
    ),
    ("NAME_BYTES_MAX", By(&["names_and_nesting_end_at_their_limits"])),
    ("BUCKETS_MAX", By(&["buckets_end_exactly_at_their_limit_and_so_they_do_after_a_restart"])),
    ("SESSIONS_MAX", By(&["sessions_end_exactly_at_their_limit_and_so_they_do_after_a_restart"])),
    (
        "SESSION_WINDOW",
        By(&["what_lies_outside_the_window_or_the_session_is_refused_and_not_applied"]),
    ),
    ("SESSION_OUTCOME_BYTES_MAX", By(&["outcomes_up_to_their_limit_are_kept_whole_for_a_retry"])),
    ("SESSION_TTL_MS", By(&["a_session_expires_when_it_was_not_used_for_its_time_and_not_before"])),
    (
        "TTL_MS_MAX",
        By(&["times_to_live_end_exactly_at_their_limit", "times_to_live_end_at_their_limit"]),
    ),
    ("VALUE_UPDATES_MAX", By(&[UNDECIDED])),
    ("VALUE_BATCH_BYTES", By(&[BYTES])),
    ("LOG_RECORD_BYTES_MAX", By(&["the_largest_record_has_a_segment_of_its_own_and_reads_back"])),
    ("UNDECIDED_UPDATES_MAX", By(&[UNDECIDED])),
    ("UNDECIDED_BYTES_MAX", By(&[BYTES])),
    ("HTTP_LINE_BYTES_MAX", By(&["heads_end_exactly_at_their_limits"])),
    ("HTTP_HEADER_BYTES_MAX", By(&["heads_end_exactly_at_their_limits"])),
    ("HTTP_HEADERS_MAX", By(&["heads_end_exactly_at_their_limits"])),
    ("HTTP_SMALL_BODY_BYTES_MAX", By(&["bodies_end_exactly_at_their_limits"])),
    ("REQUEST_READ_MS_MAX", By(SLOW)),
    ("HELLO_MS_MAX", By(SLOW)),
    ("ANSWER_WRITE_MS_MAX", By(&["a_client_that_never_reads_is_cut_off_and_costs_no_memory"])),
    ("SIZE_LINE_BYTES_MAX", By(&["lines_of_chunks_and_trailers_end_exactly_at_their_limits"])),
    ("TRAILER_BYTES_MAX", By(&["lines_of_chunks_and_trailers_end_exactly_at_their_limits"])),
    ("BUCKETS_PER_PAGE_MAX", By(&["pages_of_buckets_end_exactly_at_their_limit"])),
    ("CHANGES_MAX", By(&["changes_of_properties_end_exactly_at_their_limit"])),
    ("INLINE_BYTES_MAX", By(&["limits_hold_to_the_byte_and_before_anything_arrives"])),
    ("WORDS_MAX", By(&["limits_hold_to_the_byte_and_before_anything_arrives"])),
    ("CURSORS_MAX", CURSORS),
    ("CURSOR_BYTES_MAX", CURSORS),
    ("WATCHED_MAX", By(&["a_connection_watches_as_many_keys_as_the_limit_says"])),
    ("WINDOW_REQUESTS_MAX", By(&["the_window_ends_at_its_requests_and_at_its_bytes"])),
    ("WINDOW_BYTES_MAX", By(&["the_window_ends_at_its_requests_and_at_its_bytes"])),
    ("WINDOW_REQUEST_BYTES_MAX", By(&["a_large_request_goes_alone_in_its_place"])),
    ("CLUSTER_ID_BYTES_MAX", By(&["the_prologue_is_told_however_it_arrives"])),
    ("ROUTING_DEPTH_MAX", By(&["routing_trees_are_looked_at_to_their_depth"])),
    ("FORWARD_MS_MAX", Not("a wait: `what_may_have_happened_is_told_and_not_tried_again`")),
    (
        "DECIDED_MS_MAX",
        Not("a wait: `what_is_not_written_in_time_is_told_though_it_may_happen_yet`"),
    ),
    ("MASTER_WAIT_MS_MAX", Not("a wait: `without_a_master_patience_ends_with_a_remedy`")),
    ("FORWARDED_MAX", By(&["foreign_requests_in_progress_end_exactly_at_their_limits"])),
    ("FORWARDED_BYTES_MAX", By(&["foreign_requests_in_progress_end_exactly_at_their_limits"])),
    ("GROUPS_MAX", Not("bounds what nodes tell each other: no group can be made yet")),
    ("GROUP_MEMBERS_MAX", By(&["a_group_ends_at_its_members"])),
    ("GROUP_VOTERS_MAX", By(&["parts_and_places_are_set_and_a_group_always_has_a_voter"])),
    ("BUCKET_NAME_BYTES_MAX", By(&["types_are_small_and_plain_and_buckets_a_little_less_so"])),
    ("REPLICAS_MAX", By(&["more_replicas_than_there_are_can_not_be_asked_for"])),
    ("SIBLINGS_MAX", Not("what `siblings_max` is where nobody says otherwise")),
    ("SIBLINGS_WARN", Not("refuses nothing: a line in the log")),
    ("SIBLINGS_HARD_MAX", By(&["more_replicas_than_there_are_can_not_be_asked_for"])),
    ("SIBLINGS_BYTES_MAX", By(&["siblings_end_at_their_number_and_at_their_bytes"])),
    ("CONTEXT_BYTES_MAX", By(&["contexts_and_headers_end_at_their_limits"])),
    (
        "CONTENT_HEADERS_BYTES_MAX",
        By(&["headers_end_at_their_limits", "contexts_and_headers_end_at_their_limits"]),
    ),
    ("CONTENT_HEADERS_MAX", By(&["headers_end_at_their_limits"])),
    ("PARTITIONS_MAX", Not("bounds what nodes tell each other")),
    ("RING_CHANGES_MAX", Not("bounds what nodes tell each other")),
    ("TYPE_DEPTH_MAX", By(&["changes_end_at_their_limits"])),
    ("TYPE_STEPS_MAX", By(&["changes_end_at_their_limits"])),
    ("TYPE_WAITING_MAX", By(&["changes_end_at_their_limits"])),
    ("MGET_KEYS_MAX", By(&["reads_of_many_keys_are_whole_around_the_size_of_one_request"])),
    (
        "connections_max",
        By(&[
            "one_connection_too_many_is_told_so_at_both_doors",
            "one_connection_too_many_is_told_so_and_the_next_one_served",
        ]),
    ),
    ("connections_per_address_max", By(&["an_address_takes_its_part_and_leaves_the_others"])),
    (
        "http_idle_ms_max",
        By(&["idle_connections_are_closed_at_http_and_kept_at_resp_unless_told_otherwise"]),
    ),
    (
        "resp_idle_ms_max",
        By(&["idle_connections_of_redis_protocol_are_closed_when_a_limit_is_set"]),
    ),
    ("buffer_bytes_max", Not("not an exact count: `streams_hold_bounded_memory`")),
    (
        "memory_bytes_max",
        Not("not an exact count: `two_hundred_and_fifty_six_mebibytes_are_enough`"),
    ),
    (
        "log_bytes_max",
        Not("the log collapses before it: `the_log_collapses_by_itself_and_nothing_is_lost_by_it`"),
    ),
    (
        "segment_bytes",
        Not("a size, refuses nothing: records of any size go in, `a_log_equals_a_list`"),
    ),
    (
        "disk_reserve_bytes",
        Not("others write to the disk, too, so not to the byte: \
             `a_full_disk_refuses_writes_and_goes_on_reading_deleting_and_recovers_by_itself`"),
    ),
    (
        "shutdown_timeout_ms",
        Not("a wait: what is begun is finished, `a_stopping_node_is_alive_and_not_ready`"),
    ),
    (
        "open_files",
        Not("the system's own: `out_of_file_descriptors_it_serves_whom_it_has_and_does_not_spin`"),
    ),
];

/// Returns the page's text about the tests of a limit.
pub fn tried(name: &str) -> String {
    if name.starts_with("PEER") {
        return "between nodes, no client reaches it: `crates/transport/src`".into();
    }
    let known = TRIED.iter().find(|(known, _)| *known == name);
    let known = known.unwrap_or_else(|| panic!("{name}: say in limits_tried.rs what tries it"));
    match known.1 {
        Not(why) => why.into(),
        By(tests) => {
            let quoted: Vec<_> = tests.iter().map(|test| format!("`{test}`")).collect();
            quoted.join(", ")
        }
    }
}

/// Appends the source of all files below a folder.
fn source(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).expect("the source is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            source(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push_str(&fs::read_to_string(&path).expect("text"));
        }
    }
}

#[test]
fn every_test_that_tries_a_limit_exists() {
    let mut all = String::new();
    source(&tidy::root().join("crates"), &mut all);
    for (limit, tried) in TRIED {
        let words = match tried {
            By(tests) => tests.join("` `"),
            Not(why) => (*why).to_string(),
        };
        let names = words.split(['`', ' ']).filter(|word| word.matches('_').count() > 2);
        for name in names {
            assert!(all.contains(&format!("fn {name}(")), "{limit}: there is no test {name}");
        }
    }
}

//! Tests of limits: the tests that try each limit, or the reason why none does; the last column of
//! the page of limits.

use std::fs;
use std::path::Path;
use systest::tidy;

/// Names of the tests of a limit, or the reason why none exists.
#[derive(Clone, Copy)]
enum Coverage {
    By(&'static [&'static str]),
    Not(&'static str),
}

use Coverage::{By, Not};

const STEPS: &[&str] = &[
    "sequence_step_and_byte_limits_are_exact",
    "multi_key_command_beyond_step_row_or_key_limit_is_refused",
    "transaction_beyond_sequence_steps_max_is_aborted",
];
const PATTERNS: &[&str] = &["pattern_beyond_length_or_count_limit_is_refused"];
const UPDATE: &[&str] = &[
    "sequence_step_and_byte_limits_are_exact",
    "update_beyond_update_bytes_max_is_refused_and_not_logged",
];
const SLOW: &[&str] = &["slow_clients_are_closed_at_timeouts_and_normal_clients_are_served"];
const TOKENS: &[&str] = &["weak_or_malformed_join_token_is_rejected"];
const USERS: Coverage = By(&["invalid_changes_of_users_roles_and_tokens_are_refused"]);
const USER_COUNTS: Coverage = By(&["counts_of_users_roles_and_tokens_are_bounded_exactly"]);
const QUOTAS: Coverage = By(&["quota_of_zero_or_beyond_its_limits_is_refused"]);
const UNDECIDED: &str = "update_beyond_undecided_count_limit_is_refused";
const BYTES: &str = "update_beyond_undecided_bytes_limit_is_refused";
const AUDIT_FILES: Coverage = By(&["log_is_bounded_in_files_and_bytes_and_loses_its_oldest_lines"]);
const INDEX_QUERIES: Coverage = By(&["index_query_limits_are_exact"]);
const CURSORS: Coverage = By(&["cursor_table_evicts_oldest_beyond_entry_and_byte_limits"]);

/// Coverage of limits and settings by name. Limits between nodes are in `coverage_of`.
const LIMITS: &[(&str, Coverage)] = &[
    ("KEY_BYTES_MAX", By(&["key_size_limit_is_exact_and_equal_over_resp_and_http"])),
    (
        "OPERATORS_MAX",
        By(&["loopback_is_exempt_from_the_address_limit_and_operators_have_their_own"]),
    ),
    (
        "OPERATORS_PER_ADDRESS_MAX",
        By(&["one_address_gets_half_of_the_operators_places_and_loopback_keeps_some"]),
    ),
    ("LOOPBACK_PLACES_MAX", By(&["clients_beyond_this_machine_leave_places_to_loopback"])),
    ("CREATIONS_PER_ADDRESS_MAX", By(&["creations_of_one_address_are_bounded_within_an_hour"])),
    ("PATTERN_BYTES_MAX", By(PATTERNS)),
    ("PATTERNS_MAX", By(PATTERNS)),
    ("VALUE_BYTES_MAX", By(&["value_size_limit_is_exact_and_equal_over_resp_and_http"])),
    ("SEQUENCE_STEPS_MAX", By(STEPS)),
    (
        "SEQUENCE_DEPTH_MAX",
        By(&[
            "bucket_name_and_sequence_depth_limits_are_exact",
            "sequence_beyond_sequence_depth_max_is_refused",
        ]),
    ),
    ("UPDATE_BYTES_MAX", By(UPDATE)),
    ("ROW_OVERHEAD_BYTES", Not("no bound of its own: a part of what `UPDATE_BYTES_MAX` counts")),
    (
        "KEYS_PER_READ_MAX",
        By(&[
            "keys_per_read_limit_is_exact",
            "multi_key_command_beyond_step_row_or_key_limit_is_refused",
        ]),
    ),
    ("ANSWER_BYTES_MAX", By(&["sequence_answer_bytes_are_bounded_in_total"])),
    ("GATHERED_BYTES_MIN", Not("a wait: `gathered_answer_waits_for_memory_in_fifo_order`")),
    (
        "EVALUATION_ROWS_MAX",
        By(&[
            "delete_prefix_over_row_budget_deletes_nothing",
            "multi_key_command_beyond_step_row_or_key_limit_is_refused",
        ]),
    ),
    ("EVALUATION_MS_MAX", By(&["evaluation_time_limit_applies_to_updates_and_not_rehearsals"])),
    ("SEQUENCE_ROWS_MAX", By(&["row_budget_covers_all_steps_of_a_sequence_even_undone_ones"])),
    ("PAGE_ROWS_MAX", By(&["range_page_row_and_byte_limits_are_exact"])),
    ("VALUES_BYTES_MAX", By(&["multi_get_value_bytes_are_bounded"])),
    ("WHOLE_RANGE_BYTES_MAX", By(&["whole_range_is_a_single_page_or_too_large"])),
    ("PAGE_ROWS_DEFAULT", By(&["range_page_row_and_byte_limits_are_exact"])),
    ("PAGE_BYTES_MAX", By(&["range_page_row_and_byte_limits_are_exact"])),
    (
        "FRAME_BYTES_MAX",
        By(&[
            "request_body_limits_are_exact",
            "frame_beyond_frame_bytes_max_is_refused_from_its_header",
        ]),
    ),
    ("IMPORT_CHUNK_BYTES_MAX", By(&["import_chunk_size_limit_is_exact"])),
    (
        "PIPELINE_DEPTH_MAX",
        By(&[
            "http_pipeline_beyond_depth_limit_is_answered_in_order",
            "pipeline_around_pipeline_depth_max_is_answered_in_order",
        ]),
    ),
    ("JOIN_TOKEN_BYTES_MIN", By(TOKENS)),
    ("JOIN_TOKEN_BYTES_MAX", By(TOKENS)),
    ("JOIN_TOKEN_MS_DEFAULT", By(&["join_token_has_no_expiry_only_if_standing_is_true"])),
    ("JOIN_TOKEN_MS_MAX", By(&["join_token_has_no_expiry_only_if_standing_is_true"])),
    ("JOIN_TOKENS_MAX", By(&["join_tokens_expire_and_are_bounded_in_number"])),
    ("JOIN_TOKEN_USES_MAX", By(&["join_token_is_for_one_node_unless_its_number_of_uses_is_given"])),
    ("PASSWORD_BYTES_MAX", By(&["password_is_one_to_1024_bytes"])),
    ("USERS_MAX", USER_COUNTS),
    ("ROLES_MAX", USER_COUNTS),
    ("GRANTS_PER_ROLE_MAX", USERS),
    ("ROLES_PER_USER_MAX", USERS),
    ("API_TOKENS_MAX", USER_COUNTS),
    ("API_TOKEN_MS_MAX", USERS),
    ("QUOTA_BYTES_MAX", QUOTAS),
    ("QUOTA_BURST_MS_MAX", QUOTAS),
    (
        "MENDED_VALUES_MAX",
        Not("a member's own, no client reaches it: what lost more comes back as another node"),
    ),
    (
        "MENDED_BYTES_MAX",
        Not("a member's own, no client reaches it: what lost more says so and ends"),
    ),
    ("NAME_BYTES_MAX", By(&["bucket_name_and_sequence_depth_limits_are_exact"])),
    ("BUCKETS_MAX", By(&["bucket_limit_is_exact_also_after_restart"])),
    ("SESSIONS_MAX", By(&["session_limit_is_exact_also_after_restart"])),
    (
        "SESSIONS_PER_USER_MAX",
        By(&["user_has_at_most_its_share_of_the_sessions_and_leaves_the_others_theirs"]),
    ),
    ("SESSION_WINDOW", By(&["update_outside_session_window_or_open_session_is_refused"])),
    ("SESSION_OUTCOME_BYTES_MAX", By(&["session_outcomes_up_to_byte_limit_are_replayed_whole"])),
    ("SESSION_TTL_MS", By(&["session_expires_only_after_its_idle_time"])),
    ("TTL_MS_MAX", By(&["ttl_limit_is_exact", "ttl_beyond_ttl_ms_max_is_refused_and_not_logged"])),
    ("VALUE_UPDATES_MAX", By(&[UNDECIDED])),
    ("VALUE_BATCH_BYTES", By(&[BYTES])),
    ("LOG_RECORD_BYTES_MAX", By(&["largest_record_gets_its_own_segment_and_reads_back"])),
    ("UNDECIDED_UPDATES_MAX", By(&[UNDECIDED])),
    ("UNDECIDED_BYTES_MAX", By(&[BYTES])),
    ("HTTP_LINE_BYTES_MAX", By(&["request_line_and_header_limits_are_exact"])),
    ("HTTP_HEADER_BYTES_MAX", By(&["request_line_and_header_limits_are_exact"])),
    ("HTTP_HEADERS_MAX", By(&["request_line_and_header_limits_are_exact"])),
    ("HTTP_SMALL_BODY_BYTES_MAX", By(&["request_body_limits_are_exact"])),
    ("REQUEST_READ_MS_MAX", By(SLOW)),
    ("HELLO_MS_MAX", By(SLOW)),
    ("ANSWER_WRITE_MS_MAX", By(&["client_that_never_reads_is_disconnected_with_bounded_memory"])),
    (
        "ANSWER_BYTES_PER_SECOND_MIN",
        By(&["reader_below_the_minimum_pace_is_cut_off_and_a_faster_one_is_served"]),
    ),
    (
        "TLS_HANDSHAKE_MS_MAX",
        By(&["half_finished_handshakes_are_closed_and_other_clients_are_served"]),
    ),
    ("TLS_HANDSHAKE_BYTES_MAX", By(&["handshake_beyond_its_bytes_is_refused"])),
    ("TLS_HANDSHAKES_MAX", By(&["handshakes_are_bounded_in_total_and_by_address"])),
    ("TLS_HANDSHAKES_PER_ADDRESS_MAX", By(&["handshakes_are_bounded_in_total_and_by_address"])),
    ("SIZE_LINE_BYTES_MAX", By(&["chunk_line_or_trailer_beyond_its_limit_is_refused"])),
    ("TRAILER_BYTES_MAX", By(&["chunk_line_or_trailer_beyond_its_limit_is_refused"])),
    ("BUCKETS_PER_PAGE_MAX", By(&["bucket_list_page_limit_is_exact"])),
    ("PAGE_WAIT_MS_MAX", By(&["feed_parameters_beyond_their_limits_are_refused"])),
    ("CHANGES_MAX", By(&["property_changes_beyond_64_are_refused"])),
    ("INLINE_BYTES_MAX", By(&["frame_limits_are_exact_and_enforced_before_payload_arrives"])),
    ("ARGS_MAX", By(&["frame_limits_are_exact_and_enforced_before_payload_arrives"])),
    ("CURSORS_MAX", CURSORS),
    ("CURSOR_BYTES_MAX", CURSORS),
    ("WATCHED_MAX", By(&["watch_beyond_1024_keys_is_refused"])),
    ("WINDOW_REQUESTS_MAX", By(&["pipeline_window_is_bounded_in_requests_and_bytes"])),
    ("WINDOW_BYTES_MAX", By(&["pipeline_window_is_bounded_in_requests_and_bytes"])),
    (
        "WINDOW_REQUEST_BYTES_MAX",
        By(&["pipelined_request_around_window_byte_limit_stays_in_order"]),
    ),
    ("CLUSTER_ID_BYTES_MAX", By(&["prologue_is_parsed_only_when_complete_and_valid"])),
    ("ROUTING_DEPTH_MAX", By(&["routing_tree_beyond_depth_limit_is_malformed"])),
    (
        "FORWARD_MS_MAX",
        Not("a wait: `unrepeatable_forward_in_doubt_fails_as_unknown_without_retry`"),
    ),
    ("DECIDED_MS_MAX", Not("a wait: `update_on_hung_disk_times_out_and_may_still_apply`")),
    (
        "MASTER_WAIT_MS_MAX",
        Not("a wait: `forward_without_master_fails_with_no_quorum_after_patience`"),
    ),
    ("FORWARDED_MAX", By(&["forwarded_requests_in_progress_are_bounded_by_count_and_bytes"])),
    ("FORWARDED_BYTES_MAX", By(&["forwarded_requests_in_progress_are_bounded_by_count_and_bytes"])),
    ("GROUPS_MAX", Not("bounds what nodes tell each other: no group can be made yet")),
    ("GROUP_MEMBERS_MAX", By(&["member_beyond_group_limit_is_refused"])),
    ("GROUP_VOTERS_MAX", By(&["group_parts_and_placement_change_and_last_voter_is_kept"])),
    (
        "INDEXES_PER_BUCKET_MAX",
        By(&["bucket_has_at_most_32_indexes_and_numbers_are_never_used_again"]),
    ),
    ("INDEX_NAME_BYTES_MAX", INDEX_QUERIES),
    ("INDEX_REGEX_BYTES_MAX", INDEX_QUERIES),
    ("INDEX_CONTINUATION_BYTES_MAX", INDEX_QUERIES),
    ("INDEX_CAUSE_BYTES_MAX", By(&["cause_of_a_failure_is_cut_at_a_character"])),
    ("FEED_PAGE_BYTES_MAX", By(&["page_ends_with_the_event_that_reaches_its_bytes"])),
    ("FEED_TOKEN_BYTES_MAX", By(&["feed_query_limits_are_exact"])),
    ("FEED_WATCHERS_MAX", By(&["watchers_beyond_the_limit_are_refused"])),
    ("FEED_WAIT_MS_MAX", Not("refuses nothing: the answer comes sooner")),
    ("FEED_KEEP_MS_DEFAULT", Not("what `feed_keep_ms` is where nobody says otherwise")),
    ("FEED_KEEP_BYTES_DEFAULT", Not("what `feed_keep_bytes` is where nobody says otherwise")),
    ("BUCKET_NAME_BYTES_MAX", By(&["bucket_name_parse_rejects_invalid_and_flags_plain_names"])),
    ("REPLICAS_MAX", By(&["invalid_or_conflicting_replication_properties_are_rejected"])),
    ("SIBLINGS_MAX", Not("what `siblings_max` is where nobody says otherwise")),
    ("SIBLINGS_WARN", Not("refuses nothing: a line in the log")),
    ("SIBLINGS_HARD_MAX", By(&["invalid_or_conflicting_replication_properties_are_rejected"])),
    ("SIBLINGS_BYTES_MAX", By(&["siblings_are_bounded_by_count_and_bytes"])),
    ("CONTEXT_BYTES_MAX", By(&["oversized_context_or_content_headers_are_rejected"])),
    (
        "CONTENT_HEADERS_BYTES_MAX",
        By(&[
            "content_headers_above_size_or_count_limit_are_rejected",
            "oversized_context_or_content_headers_are_rejected",
        ]),
    ),
    ("CONTENT_HEADERS_MAX", By(&["content_headers_above_size_or_count_limit_are_rejected"])),
    ("PARTITIONS_MAX", Not("bounds what nodes tell each other")),
    ("RING_CHANGES_MAX", Not("bounds what nodes tell each other")),
    ("TYPE_DEPTH_MAX", By(&["type_operations_above_limits_are_rejected"])),
    ("TYPE_STEPS_MAX", By(&["type_operations_above_limits_are_rejected"])),
    ("TYPE_WAITING_MAX", By(&["type_operations_above_limits_are_rejected"])),
    ("MGET_KEYS_MAX", By(&["mget_of_about_1024_keys_returns_every_value"])),
    (
        "connections_max",
        By(&[
            "connection_above_the_limit_is_refused_over_http_and_resp",
            "connection_beyond_limit_is_refused_until_a_client_leaves",
        ]),
    ),
    ("connections_per_address_max", By(&["connection_limit_applies_per_address_and_in_total"])),
    ("http_idle_ms_max", By(&["idle_http_connections_are_closed_and_resp_kept_by_default"])),
    ("resp_idle_ms_max", By(&["idle_resp_connections_are_closed_when_a_limit_is_set"])),
    ("buffer_bytes_max", Not("not an exact count: `unread_streams_hold_bounded_memory`")),
    (
        "memory_bytes_max",
        Not("not an exact count: `node_limited_to_256_mib_survives_load_without_oom_kill`"),
    ),
    (
        "log_bytes_max",
        Not("the log collapses before it: `log_collapses_to_its_limit_without_losing_rows`"),
    ),
    (
        "segment_bytes",
        Not("a size, refuses nothing: records of any size go in, `log_matches_a_list_model`"),
    ),
    (
        "disk_reserve_bytes",
        Not("others write to the disk, too, so not to the byte: \
             `full_disk_refuses_writes_allows_reads_and_deletes_and_recovers`"),
    ),
    ("audit_files_max", AUDIT_FILES),
    ("audit_file_bytes_max", AUDIT_FILES),
    (
        "shutdown_timeout_ms",
        Not("a wait: what is begun is finished, `stopping_node_is_live_and_not_ready`"),
    ),
    (
        "open_files",
        Not("the system's own: `node_out_of_descriptors_serves_open_connections_without_spinning`"),
    ),
];

/// Returns the page's text about the tests of a limit.
pub fn coverage_of(name: &str) -> String {
    if name.starts_with("PEER") {
        return "between nodes, no client reaches it: `crates/transport/src`".into();
    }
    let entry = LIMITS.iter().find(|(entry, _)| *entry == name);
    let entry = entry.unwrap_or_else(|| panic!("{name}: say in limit_coverage.rs what tries it"));
    match entry.1 {
        Not(reason) => reason.into(),
        By(tests) => {
            let quoted: Vec<_> = tests.iter().map(|test| format!("`{test}`")).collect();
            quoted.join(", ")
        }
    }
}

/// Appends the source of all files below a folder.
fn append_sources(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).expect("the source is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            append_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(&path).expect("text"));
        }
    }
}

#[test]
fn every_test_listed_for_a_limit_exists() {
    let mut sources = String::new();
    append_sources(&tidy::root().join("crates"), &mut sources);
    for (limit, coverage) in LIMITS {
        let text = match coverage {
            By(tests) => tests.join("` `"),
            Not(reason) => (*reason).to_string(),
        };
        let names = text.split(['`', ' ']).filter(|word| word.matches('_').count() > 2);
        for name in names {
            assert!(sources.contains(&format!("fn {name}(")), "{limit}: there is no test {name}");
        }
    }
}

//! Limits of sizes, counts and times that all crates must agree on; the page `docs/run/limits.md`
//! lists them all.
//!
//! A limit named `_MAX` is the largest that is still accepted. Every front-end enforces the same
//! ones, before anything is allocated for the claimed size.

/// Largest key. The local store's own keys end at 65,535 bytes; a row's key carries 9 bytes in
/// front.
pub const KEY_BYTES_MAX: usize = 32 * 1024;
/// Most connections of the operators' own listener.
pub const OPERATORS_MAX: usize = 256;
/// Most of them from one address (IPv6: from one /64 network) beyond this machine.
pub const OPERATORS_PER_ADDRESS_MAX: usize = 128;
/// Places of `connections_max`, and of the operators' listener (at most an eighth of each), that
/// callers beyond this machine leave to those on it.
pub const LOOPBACK_PLACES_MAX: usize = 16;
/// Most sessions, buckets, types and changes of buckets that the clients at one address (IPv6: in
/// one /64 network) beyond this machine make through one node in an hour; one more is refused.
pub const CREATIONS_PER_ADDRESS_MAX: usize = 20_000;
/// Longest pattern of a command of Redis'.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// Most patterns of one such command.
pub const PATTERNS_MAX: usize = 64;
/// Largest value.
pub const VALUE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most steps in a sequence, nested ones counted.
pub const SEQUENCE_STEPS_MAX: usize = 131_072;
/// Deepest nesting of sequences.
pub const SEQUENCE_DEPTH_MAX: usize = 64;
/// Most bytes of keys and values one update may bring, and most it may change (a `delete_prefix`
/// lists the keys it deletes; a larger prefix is emptied in parts, or dropped with the bucket).
pub const UPDATE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Cost of a row beside its key and value when an update's effects are counted.
pub const ROW_OVERHEAD_BYTES: usize = 32;
/// Most keys in one multi_get or exists.
pub const KEYS_PER_READ_MAX: usize = 131_072;
/// Most bytes of values that one read of many keys may answer with.
pub const VALUES_BYTES_MAX: usize = 48 * 1024 * 1024;
/// Most bytes that all steps of one sequence together may answer with: keys, values and errors,
/// each row and step with `ROW_OVERHEAD_BYTES`. As many values fit as one read of many keys may
/// answer with.
pub const ANSWER_BYTES_MAX: usize = 50 * 1024 * 1024;
/// Answers that are gathered away from the connections that asked may have so many bytes together
/// (or a quarter of `memory_bytes_max`, if that is more); the next waits in line.
pub const GATHERED_BYTES_MIN: usize = 64 * 1024 * 1024;
/// Most rows that one update may look at, all steps of a sequence together: each key that is looked
/// up or walked over, and one more for every 16 KiB of its value. A group's other updates wait
/// meanwhile: some tens of milliseconds at most.
pub const EVALUATION_ROWS_MAX: usize = 25_000;
/// An update that looks at many rows is given up when it has made the others wait for so long, in
/// milliseconds: the last resort where rows come from a slow disk.
pub const EVALUATION_MS_MAX: u64 = 100;
/// Most rows that a sequence which only reads may look at, counted likewise: nobody waits for it.
pub const SEQUENCE_ROWS_MAX: usize = 262_144;
/// Most rows in one page of a range.
pub const PAGE_ROWS_MAX: usize = 100_000;
/// Rows in a page when the client names no limit.
pub const PAGE_ROWS_DEFAULT: usize = 1_000;
/// Most bytes of keys and values in one page (the page ends after the row that reaches it).
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of a range that is asked for as a whole, as of one moment; each row counts with its
/// key, its value (where that is asked for) and `ROW_OVERHEAD_BYTES`.
pub const WHOLE_RANGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Largest frame, body or pipeline buffer a front-end reads from one client before it answers.
pub const FRAME_BYTES_MAX: usize = 48 * 1024 * 1024;
/// Largest chunk of records that an import sends: room for one record at its limits, and for many
/// small ones.
pub const IMPORT_CHUNK_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most requests of one connection that may be in flight; a client that sends more waits in its
/// socket.
pub const PIPELINE_DEPTH_MAX: usize = 10_000;
/// Shortest join token: what is shorter could be guessed.
pub const JOIN_TOKEN_BYTES_MIN: usize = 32;
/// Longest join token.
pub const JOIN_TOKEN_BYTES_MAX: usize = 256;
/// A join token lets nodes in for so long, in milliseconds, if nothing else is said: a day.
pub const JOIN_TOKEN_MS_DEFAULT: u64 = 24 * 3_600 * 1_000;
/// Longest lifetime of a join token that ends by itself, in milliseconds: a year.
pub const JOIN_TOKEN_MS_MAX: u64 = 366 * 24 * 3_600 * 1_000;
/// Most join tokens that let nodes in at a time.
pub const JOIN_TOKENS_MAX: usize = 64;
/// Most nodes that a join token with a number of uses lets in.
pub const JOIN_TOKEN_USES_MAX: u32 = 64;
/// Longest password of a user.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// Most users of a cluster.
pub const USERS_MAX: usize = 10_000;
/// Most roles of a cluster, beside the built-in ones.
pub const ROLES_MAX: usize = 1_000;
/// Most grants of a role.
pub const GRANTS_PER_ROLE_MAX: usize = 256;
/// Most roles of a user, and most that a token is narrowed to.
pub const ROLES_PER_USER_MAX: usize = 64;
/// Most API tokens of a cluster.
pub const API_TOKENS_MAX: usize = 10_000;
/// Longest lifetime of an API token that ends by itself, in milliseconds: ten years.
pub const API_TOKEN_MS_MAX: u64 = 10 * 366 * 24 * 3_600 * 1_000;
/// Largest quota of a user in bytes a second.
pub const QUOTA_BYTES_MAX: u64 = 1024 * 1024 * 1024 * 1024;
/// Longest time whose quota a user may use up at once, in milliseconds.
pub const QUOTA_BURST_MS_MAX: u32 = 60_000;
/// Longest name of a bucket type, a consistent bucket or a member.
pub const NAME_BYTES_MAX: usize = 63;
/// Longest name of an available bucket within its type, as it is written: Riak's clients
/// percent-encode theirs.
pub const BUCKET_NAME_BYTES_MAX: usize = 255;
/// Most declared indexes of a bucket.
pub const INDEXES_PER_BUCKET_MAX: usize = 32;
/// Longest name of an index or of a tag's field.
pub const INDEX_NAME_BYTES_MAX: usize = 1_024;
/// Longest regular expression of an index query.
pub const INDEX_REGEX_BYTES_MAX: usize = 1_024;
/// Longest continuation of an index query: room for the longest term and key.
pub const INDEX_CONTINUATION_BYTES_MAX: usize = 70_000;
/// Longest cause that is kept of an index that could not be built; a longer one is cut.
pub const INDEX_CAUSE_BYTES_MAX: usize = 1_024;
/// A page of a feed ends with the event that reaches this many bytes; each event counts with its
/// key, its value and `ROW_OVERHEAD_BYTES`.
pub const FEED_PAGE_BYTES_MAX: usize = 256 * 1024;
/// Longest token of a feed: room for a place in every partition of an available bucket.
pub const FEED_TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Most requests that wait at a node for an event of a feed; one more is answered `too_many`.
pub const FEED_WATCHERS_MAX: usize = 10_000;
/// A node waits for so long at most for an event of a feed, in milliseconds; then it answers
/// without one, and the reader asks again.
pub const FEED_WAIT_MS_MAX: u64 = 5_000;
/// Time for which a feed keeps deletes and replaced changes if nothing else is said, in
/// milliseconds: a day.
pub const FEED_KEEP_MS_DEFAULT: u64 = 24 * 3_600 * 1_000;
/// Bytes up to which a feed keeps them within that time if nothing else is said.
pub const FEED_KEEP_BYTES_DEFAULT: u64 = 1024 * 1024 * 1024;
/// Most properties that are changed at once: more than there will ever be, fewer than would cost
/// anything.
pub const CHANGES_MAX: usize = 64;
/// Most buckets in a cluster.
pub const BUCKETS_MAX: usize = 100_000;
/// Most open sessions in a group; opening one more is refused.
pub const SESSIONS_MAX: usize = 100_000;
/// Most of them that one user has opened while access is on, unless its quota says otherwise.
pub const SESSIONS_PER_USER_MAX: u32 = 50_000;
/// Request numbers remembered per session.
pub const SESSION_WINDOW: u64 = 1_024;
/// Outcomes up to this size are kept whole for a retry; of larger ones only the index.
pub const SESSION_OUTCOME_BYTES_MAX: usize = 4 * 1024;
/// A session not used for this much group time expires, in milliseconds.
pub const SESSION_TTL_MS: u64 = 3_600_000;
/// Longest time to live, in milliseconds (about 285 years of group time).
pub const TTL_MS_MAX: u64 = 1 << 53;
/// Most client updates in one value (the unit of agreement).
pub const VALUE_UPDATES_MAX: usize = 16_384;
/// A value is closed when it holds this many bytes; a single larger update travels alone.
pub const VALUE_BATCH_BYTES: usize = 1024 * 1024;
/// Largest payload of one log record: one update at its limit plus framing.
pub const LOG_RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most updates of one group that may wait undecided; one more is answered `overloaded`.
pub const UNDECIDED_UPDATES_MAX: usize = 200_000;
/// Most bytes of undecided updates of one group (or a quarter of `memory_bytes_max`, if that is
/// less); one more is answered `overloaded`.
pub const UNDECIDED_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Longest HTTP request line with its end: room for three keys of the largest size, every byte
/// percent-encoded, and some words.
pub const HTTP_LINE_BYTES_MAX: usize = 292 * 1024;
/// Longest HTTP header section: the lines behind the request line, with the empty one.
pub const HTTP_HEADER_BYTES_MAX: usize = 64 * 1024;
/// Most HTTP headers in one request.
pub const HTTP_HEADERS_MAX: usize = 64;
/// Largest HTTP body of properties, log levels and other small things.
pub const HTTP_SMALL_BODY_BYTES_MAX: usize = 64 * 1024;
/// A connection that sent the beginning of a request and not its end is closed after this, in
/// milliseconds.
pub const REQUEST_READ_MS_MAX: u64 = 30_000;
/// A connection that has said nothing yet is closed after this, in milliseconds.
pub const HELLO_MS_MAX: u64 = 10_000;
/// A client that does not read its answers is cut off after this, in milliseconds.
pub const ANSWER_WRITE_MS_MAX: u64 = 30_000;
/// Bytes of an answer that a client must read in each second, on average, once that time has
/// passed; a slower one is cut off, because its answer holds memory that others need.
pub const ANSWER_BYTES_PER_SECOND_MIN: u64 = 128 * 1024;
/// Longest piece of a message between nodes: something more urgent waits for no more than this.
pub const PEER_PIECE_BYTES_MAX: usize = 32 * 1024;
/// Largest message between nodes in the lane for heartbeats, votes and acknowledgements: one piece.
pub const PEER_CONTROL_BYTES_MAX: usize = 32 * 1024;
/// Largest message between nodes in the lane for log values: a log record and what is said about
/// it.
pub const PEER_DATA_BYTES_MAX: usize = 65 * 1024 * 1024;
/// Largest request that a node passes on to another, and largest answer: room for the most values
/// that one read answers with, and what stands beside each.
pub const PEER_CALL_BYTES_MAX: usize = 52 * 1024 * 1024;
/// Longest detail of an error that is passed on; the longest key fits.
pub const PEER_DETAIL_BYTES_MAX: usize = 32 * 1024;
/// Largest message between nodes in the lane for snapshots.
pub const PEER_BULK_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes of snapshots that may be under way to a node that has not yet used them up: what is
/// urgent can't overtake them any more.
pub const PEER_BULK_WINDOW_BYTES: usize = 2 * 1024 * 1024;
/// Longest head of a message between nodes, the part kept beside a value that many get.
pub const PEER_HEAD_BYTES_MAX: usize = 96;
/// Longest greeting between nodes.
pub const PEER_GREETING_BYTES_MAX: usize = 2 * 1024;
/// Most lives that a node tells in a greeting: all those that the cluster may have on record.
pub const PEER_LIVES_MAX: usize = 32;
/// Longest address of a node, host and port.
pub const PEER_ADDRESS_BYTES_MAX: usize = 261;
/// A connection at the nodes' address that has not finished its greeting is closed after this, in
/// milliseconds.
pub const PEER_GREETING_MS_MAX: u64 = 2_000;
/// Most connections that are being greeted by a node at a time.
pub const PEER_GREETINGS_MAX: usize = 128;
/// Most of them from one address.
pub const PEER_GREETINGS_PER_ADDRESS_MAX: usize = 32;
/// Most of them from addresses of no member: the others are left to members.
pub const PEER_GREETINGS_OF_STRANGERS_MAX: usize = 64;
/// A TLS handshake that is not complete after this, in milliseconds, ends its connection.
pub const TLS_HANDSHAKE_MS_MAX: u64 = 5_000;
/// Most bytes that a TLS handshake may take from the other side: room for its certificates.
pub const TLS_HANDSHAKE_BYTES_MAX: usize = 16 * 1024;
/// Most TLS handshakes of clients that are in progress at a time; one more waits for a place.
pub const TLS_HANDSHAKES_MAX: usize = 512;
/// Most of them from one address (IPv6: from one /64 network) beyond this machine.
pub const TLS_HANDSHAKES_PER_ADDRESS_MAX: usize = 16;
/// Most members of a cluster.
pub const PEERS_MAX: usize = 1_024;
/// Most requests to other nodes that may wait for their answer; one more is answered `overloaded`.
pub const PEER_CALLS_MAX: usize = 65_536;
/// A request that is passed on to another node is answered within this, in milliseconds.
pub const FORWARD_MS_MAX: u64 = 10_000;
/// An update that is not decided and applied after this, in milliseconds, is answered
/// `deadline_passed`: it may happen yet.
pub const DECIDED_MS_MAX: u64 = 10_000;
/// A request waits for a master to be known, or to be reached, for at most this, in milliseconds: a
/// few leases, so that an election goes by unnoticed.
pub const MASTER_WAIT_MS_MAX: u64 = 3_000;
/// Most requests of other nodes that a node has in progress; one more is declined and answered
/// `overloaded`.
pub const FORWARDED_MAX: usize = 4_096;
/// Most bytes of such requests.
pub const FORWARDED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most groups of a cluster.
pub const GROUPS_MAX: usize = 4_096;
/// Most members of one group, of every part.
pub const GROUP_MEMBERS_MAX: usize = 64;
/// Most of them that vote.
pub const GROUP_VOTERS_MAX: usize = 7;
/// Most replicas of a key of an available bucket.
pub const REPLICAS_MAX: u8 = 16;
/// Most siblings of a key, unless its bucket says otherwise.
pub const SIBLINGS_MAX: u16 = 100;
/// With so many siblings the log warns.
pub const SIBLINGS_WARN: usize = 25;
/// Most siblings that a bucket may allow.
pub const SIBLINGS_HARD_MAX: u16 = 1_000;
/// Most bytes of all values of a key of an available bucket, with what is kept beside them.
pub const SIBLINGS_BYTES_MAX: usize = 24 * 1024 * 1024;
/// Largest context that a client brings or gets: in base 64 it fits into HTTP's headers.
pub const CONTEXT_BYTES_MAX: usize = 32 * 1024;
/// Most bytes of headers (metadata, links, indexes) of one value.
pub const CONTENT_HEADERS_BYTES_MAX: usize = 64 * 1024;
/// Most metadata, links and indexes of one value together.
pub const CONTENT_HEADERS_MAX: usize = 1_024;
/// Most partitions of the ring.
pub const PARTITIONS_MAX: usize = 1_024;
/// Most changes of the ring in one plan.
pub const RING_CHANGES_MAX: usize = 64;
/// Deepest nesting of maps in a map of a data type.
pub const TYPE_DEPTH_MAX: usize = 32;
/// Most steps of one change to a data type.
pub const TYPE_STEPS_MAX: usize = 100_000;
/// Most removes that may wait in one data type for what their contexts have seen.
pub const TYPE_WAITING_MAX: usize = 1_024;

/// Most values of a group that a damaged log may have lost where it is mended in its place.
pub const MENDED_VALUES_MAX: u64 = 100_000;

/// Most bytes of them.
pub const MENDED_BYTES_MAX: usize = 64 * 1024 * 1024;

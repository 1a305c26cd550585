//! Messages about queries of secondary indexes.

use super::RpbPair;
use bytes::Bytes;

/// Value of `qtype` for a query of one term.
pub const QUERY_EQUAL: i32 = 0;
/// Value of `qtype` for a query of a range of terms.
pub const QUERY_RANGE: i32 = 1;

messages! {
    /// Query of an index.
    RpbIndexReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 index: Bytes [bytes = "bytes", required];
        3 qtype: Option<i32> [int32, optional];
        4 key: Option<Bytes> [bytes = "bytes", optional];
        5 range_min: Option<Bytes> [bytes = "bytes", optional];
        6 range_max: Option<Bytes> [bytes = "bytes", optional];
        7 return_terms: Option<bool> [bool, optional];
        8 stream: Option<bool> [bool, optional];
        9 max_results: Option<u32> [uint32, optional];
        10 continuation: Option<Bytes> [bytes = "bytes", optional];
        11 timeout: Option<u32> [uint32, optional];
        12 r#type: Option<Bytes> [bytes = "bytes", optional];
        13 term_regex: Option<Bytes> [bytes = "bytes", optional];
        14 pagination_sort: Option<bool> [bool, optional];
        15 cover_context: Option<Bytes> [bytes = "bytes", optional];
        16 return_body: Option<bool> [bool, optional];
    }
    /// Answer with keys, or with pairs of term and key. In a stream the last has `done`.
    RpbIndexResp {
        1 keys: Vec<Bytes> [bytes = "bytes", repeated];
        2 results: Vec<RpbPair> [message, repeated];
        3 continuation: Option<Bytes> [bytes = "bytes", optional];
        4 done: Option<bool> [bool, optional];
    }
}

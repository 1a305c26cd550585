//! Messages about objects, legacy counters and preference lists.

use bytes::Bytes;

messages! {
    /// Name and value: metadata of a client, an index entry, or a row with its term.
    RpbPair {
        1 key: Bytes [bytes = "bytes", required];
        2 value: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Link to another object.
    RpbLink {
        1 bucket: Option<Bytes> [bytes = "bytes", optional];
        2 key: Option<Bytes> [bytes = "bytes", optional];
        3 tag: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Value with its metadata.
    RpbContent {
        1 value: Bytes [bytes = "bytes", required];
        2 content_type: Option<Bytes> [bytes = "bytes", optional];
        3 charset: Option<Bytes> [bytes = "bytes", optional];
        4 content_encoding: Option<Bytes> [bytes = "bytes", optional];
        5 vtag: Option<Bytes> [bytes = "bytes", optional];
        6 links: Vec<RpbLink> [message, repeated];
        7 last_mod: Option<u32> [uint32, optional];
        8 last_mod_usecs: Option<u32> [uint32, optional];
        9 usermeta: Vec<RpbPair> [message, repeated];
        10 indexes: Vec<RpbPair> [message, repeated];
        11 deleted: Option<bool> [bool, optional];
    }
    /// Read of an object.
    RpbGetReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 key: Bytes [bytes = "bytes", required];
        3 r: Option<u32> [uint32, optional];
        4 pr: Option<u32> [uint32, optional];
        5 basic_quorum: Option<bool> [bool, optional];
        6 notfound_ok: Option<bool> [bool, optional];
        7 if_modified: Option<Bytes> [bytes = "bytes", optional];
        8 head: Option<bool> [bool, optional];
        9 deletedvclock: Option<bool> [bool, optional];
        10 timeout: Option<u32> [uint32, optional];
        11 sloppy_quorum: Option<bool> [bool, optional];
        12 n_val: Option<u32> [uint32, optional];
        13 r#type: Option<Bytes> [bytes = "bytes", optional];
        14 node_confirms: Option<u32> [uint32, optional];
    }
    /// Answer to a read: no content means that there is no object.
    RpbGetResp {
        1 content: Vec<RpbContent> [message, repeated];
        2 vclock: Option<Bytes> [bytes = "bytes", optional];
        3 unchanged: Option<bool> [bool, optional];
    }
    /// Write of an object. Without a key, the server generates one.
    RpbPutReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 key: Option<Bytes> [bytes = "bytes", optional];
        3 vclock: Option<Bytes> [bytes = "bytes", optional];
        4 content: Option<RpbContent> [message, optional];
        5 w: Option<u32> [uint32, optional];
        6 dw: Option<u32> [uint32, optional];
        7 return_body: Option<bool> [bool, optional];
        8 pw: Option<u32> [uint32, optional];
        9 if_not_modified: Option<bool> [bool, optional];
        10 if_none_match: Option<bool> [bool, optional];
        11 return_head: Option<bool> [bool, optional];
        12 timeout: Option<u32> [uint32, optional];
        13 asis: Option<bool> [bool, optional];
        14 sloppy_quorum: Option<bool> [bool, optional];
        15 n_val: Option<u32> [uint32, optional];
        16 r#type: Option<Bytes> [bytes = "bytes", optional];
        17 node_confirms: Option<u32> [uint32, optional];
    }
    /// Answer to a write.
    RpbPutResp {
        1 content: Vec<RpbContent> [message, repeated];
        2 vclock: Option<Bytes> [bytes = "bytes", optional];
        3 key: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Delete of an object.
    RpbDelReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 key: Bytes [bytes = "bytes", required];
        3 rw: Option<u32> [uint32, optional];
        4 vclock: Option<Bytes> [bytes = "bytes", optional];
        5 r: Option<u32> [uint32, optional];
        6 w: Option<u32> [uint32, optional];
        7 pr: Option<u32> [uint32, optional];
        8 pw: Option<u32> [uint32, optional];
        9 dw: Option<u32> [uint32, optional];
        10 timeout: Option<u32> [uint32, optional];
        11 sloppy_quorum: Option<bool> [bool, optional];
        12 n_val: Option<u32> [uint32, optional];
        13 r#type: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Addition to a legacy counter.
    RpbCounterUpdateReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 key: Bytes [bytes = "bytes", required];
        3 amount: Option<i64> [sint64, optional];
        4 w: Option<u32> [uint32, optional];
        5 dw: Option<u32> [uint32, optional];
        6 pw: Option<u32> [uint32, optional];
        7 returnvalue: Option<bool> [bool, optional];
        8 node_confirms: Option<u32> [uint32, optional];
    }
    /// Answer to an addition to a legacy counter.
    RpbCounterUpdateResp {
        1 value: Option<i64> [sint64, optional];
    }
    /// Read of a legacy counter.
    RpbCounterGetReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 key: Bytes [bytes = "bytes", required];
        3 r: Option<u32> [uint32, optional];
        4 pr: Option<u32> [uint32, optional];
        5 basic_quorum: Option<bool> [bool, optional];
        6 notfound_ok: Option<bool> [bool, optional];
        7 node_confirms: Option<u32> [uint32, optional];
    }
    /// Answer with a legacy counter: no value means that there is no counter.
    RpbCounterGetResp {
        1 value: Option<i64> [sint64, optional];
    }
    /// Query of the preference list of a key.
    RpbGetBucketKeyPreflistReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 key: Bytes [bytes = "bytes", required];
        3 r#type: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Node on a preference list.
    RpbBucketKeyPreflistItem {
        1 partition: i64 [int64, required];
        2 node: Bytes [bytes = "bytes", required];
        3 primary: bool [bool, required];
    }
    /// Answer with a preference list.
    RpbGetBucketKeyPreflistResp {
        1 preflist: Vec<RpbBucketKeyPreflistItem> [message, repeated];
    }
}

//! Messages about buckets, bucket types and their properties.

use bytes::Bytes;

messages! {
    /// Query of the buckets of a type.
    RpbListBucketsReq {
        1 timeout: Option<u32> [uint32, optional];
        2 stream: Option<bool> [bool, optional];
        3 r#type: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Answer with buckets. In a stream the last has `done`.
    RpbListBucketsResp {
        1 buckets: Vec<Bytes> [bytes = "bytes", repeated];
        2 done: Option<bool> [bool, optional];
    }
    /// Query of the keys of a bucket.
    RpbListKeysReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 timeout: Option<u32> [uint32, optional];
        3 r#type: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Answer with keys. The last has `done`.
    RpbListKeysResp {
        1 keys: Vec<Bytes> [bytes = "bytes", repeated];
        2 done: Option<bool> [bool, optional];
    }
    /// Query of the properties of a bucket.
    RpbGetBucketReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 r#type: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Answer with the properties of a bucket or of a bucket type.
    RpbGetBucketResp {
        1 props: RpbBucketProps [message, required];
    }
    /// Change to the properties of a bucket.
    RpbSetBucketReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 props: Option<RpbBucketProps> [message, optional];
        3 r#type: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Reset of the properties of a bucket to those of its type.
    RpbResetBucketReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 r#type: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Query of the properties of a bucket type.
    RpbGetBucketTypeReq {
        1 r#type: Bytes [bytes = "bytes", required];
    }
    /// Change to the properties of a bucket type.
    RpbSetBucketTypeReq {
        1 r#type: Bytes [bytes = "bytes", required];
        2 props: Option<RpbBucketProps> [message, optional];
    }
    /// Function of an Erlang module.
    RpbModFun {
        1 module: Bytes [bytes = "bytes", required];
        2 function: Bytes [bytes = "bytes", required];
    }
    /// Hook that runs before or after a write.
    RpbCommitHook {
        1 modfun: Option<RpbModFun> [message, optional];
        2 name: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Properties of a bucket or a bucket type.
    RpbBucketProps {
        1 n_val: Option<u32> [uint32, optional];
        2 allow_mult: Option<bool> [bool, optional];
        3 last_write_wins: Option<bool> [bool, optional];
        4 precommit: Vec<RpbCommitHook> [message, repeated];
        5 has_precommit: Option<bool> [bool, optional];
        6 postcommit: Vec<RpbCommitHook> [message, repeated];
        7 has_postcommit: Option<bool> [bool, optional];
        8 chash_keyfun: Option<RpbModFun> [message, optional];
        9 linkfun: Option<RpbModFun> [message, optional];
        10 old_vclock: Option<u32> [uint32, optional];
        11 young_vclock: Option<u32> [uint32, optional];
        12 big_vclock: Option<u32> [uint32, optional];
        13 small_vclock: Option<u32> [uint32, optional];
        14 pr: Option<u32> [uint32, optional];
        15 r: Option<u32> [uint32, optional];
        16 w: Option<u32> [uint32, optional];
        17 pw: Option<u32> [uint32, optional];
        18 dw: Option<u32> [uint32, optional];
        19 rw: Option<u32> [uint32, optional];
        20 basic_quorum: Option<bool> [bool, optional];
        21 notfound_ok: Option<bool> [bool, optional];
        22 backend: Option<Bytes> [bytes = "bytes", optional];
        23 search: Option<bool> [bool, optional];
        24 repl: Option<i32> [int32, optional];
        25 search_index: Option<Bytes> [bytes = "bytes", optional];
        26 datatype: Option<Bytes> [bytes = "bytes", optional];
        27 consistent: Option<bool> [bool, optional];
        28 write_once: Option<bool> [bool, optional];
        29 hll_precision: Option<u32> [uint32, optional];
    }
}

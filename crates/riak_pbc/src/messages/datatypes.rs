//! Messages about data types.

use bytes::Bytes;

messages! {
    /// Field of a map: name and kind.
    MapField {
        1 name: Bytes [bytes = "bytes", required];
        2 r#type: i32 [int32, required];
    }
    /// Field of a map with its value.
    MapEntry {
        1 field: MapField [message, required];
        2 counter_value: Option<i64> [sint64, optional];
        3 set_value: Vec<Bytes> [bytes = "bytes", repeated];
        4 register_value: Option<Bytes> [bytes = "bytes", optional];
        5 flag_value: Option<bool> [bool, optional];
        6 map_value: Vec<MapEntry> [message, repeated];
    }
    /// Read of a data type.
    DtFetchReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 key: Bytes [bytes = "bytes", required];
        3 r#type: Bytes [bytes = "bytes", required];
        4 r: Option<u32> [uint32, optional];
        5 pr: Option<u32> [uint32, optional];
        6 basic_quorum: Option<bool> [bool, optional];
        7 notfound_ok: Option<bool> [bool, optional];
        8 timeout: Option<u32> [uint32, optional];
        9 sloppy_quorum: Option<bool> [bool, optional];
        10 n_val: Option<u32> [uint32, optional];
        11 include_context: Option<bool> [bool, optional];
        12 node_confirms: Option<u32> [uint32, optional];
    }
    /// Value of a data type.
    DtValue {
        1 counter_value: Option<i64> [sint64, optional];
        2 set_value: Vec<Bytes> [bytes = "bytes", repeated];
        3 map_value: Vec<MapEntry> [message, repeated];
        4 hll_value: Option<u64> [uint64, optional];
        5 gset_value: Vec<Bytes> [bytes = "bytes", repeated];
    }
    /// Answer to a read of a data type: no value means that there is none.
    DtFetchResp {
        1 context: Option<Bytes> [bytes = "bytes", optional];
        2 r#type: i32 [int32, required];
        3 value: Option<DtValue> [message, optional];
    }
    /// Operation on a counter: adds 1 unless it names another number.
    CounterOp {
        1 increment: Option<i64> [sint64, optional];
    }
    /// Operation on a set.
    SetOp {
        1 adds: Vec<Bytes> [bytes = "bytes", repeated];
        2 removes: Vec<Bytes> [bytes = "bytes", repeated];
    }
    /// Operation on a grow-only set.
    GSetOp {
        1 adds: Vec<Bytes> [bytes = "bytes", repeated];
    }
    /// Operation on a HyperLogLog.
    HllOp {
        1 adds: Vec<Bytes> [bytes = "bytes", repeated];
    }
    /// Operation on a field of a map.
    MapUpdate {
        1 field: MapField [message, required];
        2 counter_op: Option<CounterOp> [message, optional];
        3 set_op: Option<SetOp> [message, optional];
        4 register_op: Option<Bytes> [bytes = "bytes", optional];
        5 flag_op: Option<i32> [int32, optional];
        6 map_op: Option<MapOp> [message, optional];
    }
    /// Operation on a map.
    MapOp {
        1 removes: Vec<MapField> [message, repeated];
        2 updates: Vec<MapUpdate> [message, repeated];
    }
    /// Operation on a data type.
    DtOp {
        1 counter_op: Option<CounterOp> [message, optional];
        2 set_op: Option<SetOp> [message, optional];
        3 map_op: Option<MapOp> [message, optional];
        4 hll_op: Option<HllOp> [message, optional];
        5 gset_op: Option<GSetOp> [message, optional];
    }
    /// Change of a data type. Without a key, the server generates one.
    DtUpdateReq {
        1 bucket: Bytes [bytes = "bytes", required];
        2 key: Option<Bytes> [bytes = "bytes", optional];
        3 r#type: Bytes [bytes = "bytes", required];
        4 context: Option<Bytes> [bytes = "bytes", optional];
        5 op: Option<DtOp> [message, optional];
        6 w: Option<u32> [uint32, optional];
        7 dw: Option<u32> [uint32, optional];
        8 pw: Option<u32> [uint32, optional];
        9 return_body: Option<bool> [bool, optional];
        10 timeout: Option<u32> [uint32, optional];
        11 sloppy_quorum: Option<bool> [bool, optional];
        12 n_val: Option<u32> [uint32, optional];
        13 include_context: Option<bool> [bool, optional];
        14 node_confirms: Option<u32> [uint32, optional];
    }
    /// Answer to a change of a data type.
    DtUpdateResp {
        1 key: Option<Bytes> [bytes = "bytes", optional];
        2 context: Option<Bytes> [bytes = "bytes", optional];
        3 counter_value: Option<i64> [sint64, optional];
        4 set_value: Vec<Bytes> [bytes = "bytes", repeated];
        5 map_value: Vec<MapEntry> [message, repeated];
        6 hll_value: Option<u64> [uint64, optional];
        7 gset_value: Vec<Bytes> [bytes = "bytes", repeated];
    }
}

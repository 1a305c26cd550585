//! Messages about a connection and the node that serves it.

use bytes::Bytes;

messages! {
    /// Answer to a request that failed.
    RpbErrorResp {
        1 errmsg: Bytes [bytes = "bytes", required];
        2 errcode: u32 [uint32, required];
    }
    /// Answer with the name and version of the node.
    RpbGetServerInfoResp {
        1 node: Option<Bytes> [bytes = "bytes", optional];
        2 server_version: Option<Bytes> [bytes = "bytes", optional];
    }
    /// Answer with the client's id.
    RpbGetClientIdResp {
        1 client_id: Bytes [bytes = "bytes", required];
    }
    /// Request that sets the client's id.
    RpbSetClientIdReq {
        1 client_id: Bytes [bytes = "bytes", required];
    }
    /// Login of a user by password.
    RpbAuthReq {
        1 user: Bytes [bytes = "bytes", required];
        2 password: Bytes [bytes = "bytes", required];
    }
    /// MapReduce job.
    RpbMapRedReq {
        1 request: Bytes [bytes = "bytes", required];
        2 content_type: Bytes [bytes = "bytes", required];
    }
}

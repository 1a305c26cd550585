//! Requests: from the code and the bytes of a frame to the message.

use crate::messages::*;
use crate::structure::{
    DT_UPDATE, FIELDS_MAX, FLAT, PUT, SET_PROPERTIES, Structure, StructureFault,
};
use bytes::Bytes;
use prost::Message;
use std::fmt;

/// Request of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum PbcRequest {
    /// Liveness check.
    Ping,
    /// Query of the client's id.
    GetClientId,
    /// New id of the client.
    SetClientId(RpbSetClientIdReq),
    /// Query of the node's name and version.
    GetServerInfo,
    /// Read of an object.
    Get(Box<RpbGetReq>),
    /// Write of an object.
    Put(Box<RpbPutReq>),
    /// Delete of an object.
    Del(Box<RpbDelReq>),
    /// Query of the buckets of a type.
    ListBuckets(RpbListBucketsReq),
    /// Query of the keys of a bucket.
    ListKeys(RpbListKeysReq),
    /// Query of a bucket's properties.
    GetBucket(RpbGetBucketReq),
    /// Change of a bucket's properties.
    SetBucket(Box<RpbSetBucketReq>),
    /// MapReduce job.
    MapRed(RpbMapRedReq),
    /// Query of an index.
    Index(Box<RpbIndexReq>),
    /// Reset of a bucket's properties.
    ResetBucket(RpbResetBucketReq),
    /// Query of a bucket type's properties.
    GetBucketType(RpbGetBucketTypeReq),
    /// Change of a bucket type's properties.
    SetBucketType(Box<RpbSetBucketTypeReq>),
    /// Query of a preference list.
    GetPreflist(RpbGetBucketKeyPreflistReq),
    /// Addition to a legacy counter.
    CounterUpdate(RpbCounterUpdateReq),
    /// Read of a legacy counter.
    CounterGet(RpbCounterGetReq),
    /// Read of a data type.
    DtFetch(Box<DtFetchReq>),
    /// Change of a data type.
    DtUpdate(Box<DtUpdateReq>),
    /// Login.
    Auth(RpbAuthReq),
    /// Begin of TLS.
    StartTls,
}

/// Reason why a frame holds no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// No request that is served has this code.
    UnknownCode(u8),
    /// The bytes are not a message of this code.
    Malformed(u8),
    /// The message has too many fields, or too many messages in each other.
    TooLarge,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::UnknownCode(code) => write!(f, "Unknown message code: {code}"),
            DecodeError::Malformed(code) => {
                write!(f, "Message decoding error: the bytes are no message of code {code}")
            }
            DecodeError::TooLarge => {
                write!(
                    f,
                    "the message has more than {FIELDS_MAX} fields, or maps nested too deeply: \
                     send it in parts"
                )
            }
        }
    }
}

impl PbcRequest {
    /// Decodes the message of a frame. Values are slices of its bytes, which are not copied.
    pub fn decode(code: u8, body: Bytes) -> Result<PbcRequest, DecodeError> {
        use PbcRequest::*;
        let request = match code {
            1 => FLAT.check(&body).map(|()| Ping),
            3 => FLAT.check(&body).map(|()| GetClientId),
            5 => message(&FLAT, body).map(SetClientId),
            7 => FLAT.check(&body).map(|()| GetServerInfo),
            9 => message(&FLAT, body).map(Box::new).map(Get),
            11 => message(&PUT, body).map(Box::new).map(Put),
            13 => message(&FLAT, body).map(Box::new).map(Del),
            15 => message(&FLAT, body).map(ListBuckets),
            17 => message(&FLAT, body).map(ListKeys),
            19 => message(&FLAT, body).map(GetBucket),
            21 => message(&SET_PROPERTIES, body).map(Box::new).map(SetBucket),
            23 => message(&FLAT, body).map(MapRed),
            25 => message(&FLAT, body).map(Box::new).map(Index),
            29 => message(&FLAT, body).map(ResetBucket),
            31 => message(&FLAT, body).map(GetBucketType),
            32 => message(&SET_PROPERTIES, body).map(Box::new).map(SetBucketType),
            33 => message(&FLAT, body).map(GetPreflist),
            50 => message(&FLAT, body).map(CounterUpdate),
            52 => message(&FLAT, body).map(CounterGet),
            80 => message(&FLAT, body).map(Box::new).map(DtFetch),
            82 => message(&DT_UPDATE, body).map(Box::new).map(DtUpdate),
            253 => message(&FLAT, body).map(Auth),
            255 => FLAT.check(&body).map(|()| StartTls),
            _ => return Err(DecodeError::UnknownCode(code)),
        };
        request.map_err(|fault| match fault {
            StructureFault::Malformed => DecodeError::Malformed(code),
            StructureFault::TooLarge => DecodeError::TooLarge,
        })
    }
}

/// Decodes a message, after a check of its structure.
fn message<M: Message + Default>(structure: &Structure, body: Bytes) -> Result<M, StructureFault> {
    structure.check(&body)?;
    M::decode(body).map_err(|_| StructureFault::Malformed)
}

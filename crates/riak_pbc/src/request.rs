//! Requests: from the code and the bytes of a frame to the message.

use crate::messages::*;
use crate::structure::{DT_UPDATE, FIELDS_MAX, FLAT, PUT, SET_PROPERTIES, StructureFault};
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
        let structure = match code {
            11 => &PUT,
            21 | 32 => &SET_PROPERTIES,
            82 => &DT_UPDATE,
            _ => &FLAT,
        };
        if !is_request(code) {
            return Err(DecodeError::UnknownCode(code));
        }
        structure.check(&body).map_err(|fault| match fault {
            StructureFault::Malformed => DecodeError::Malformed(code),
            StructureFault::TooLarge => DecodeError::TooLarge,
        })?;
        let request = match code {
            1 => Ok(Ping),
            3 => Ok(GetClientId),
            5 => Message::decode(body).map(SetClientId),
            7 => Ok(GetServerInfo),
            9 => boxed(body).map(Get),
            11 => boxed(body).map(Put),
            13 => boxed(body).map(Del),
            15 => Message::decode(body).map(ListBuckets),
            17 => Message::decode(body).map(ListKeys),
            19 => Message::decode(body).map(GetBucket),
            21 => boxed(body).map(SetBucket),
            23 => Message::decode(body).map(MapRed),
            25 => boxed(body).map(Index),
            29 => Message::decode(body).map(ResetBucket),
            31 => Message::decode(body).map(GetBucketType),
            32 => boxed(body).map(SetBucketType),
            33 => Message::decode(body).map(GetPreflist),
            50 => Message::decode(body).map(CounterUpdate),
            52 => Message::decode(body).map(CounterGet),
            80 => boxed(body).map(DtFetch),
            82 => boxed(body).map(DtUpdate),
            253 => Message::decode(body).map(Auth),
            255 => Ok(StartTls),
            _ => return Err(DecodeError::UnknownCode(code)),
        };
        request.map_err(|_| DecodeError::Malformed(code))
    }
}

fn is_request(code: u8) -> bool {
    matches!(
        code,
        1 | 3 | 5 | 7 | 9 | 11 | 13 | 15 | 17 | 19 | 21 | 23 | 25 | 29 | 31
            ..=33 | 50 | 52 | 80 | 82 | 253 | 255
    )
}

fn boxed<M: Message + Default>(body: Bytes) -> Result<Box<M>, prost::DecodeError> {
    M::decode(body).map(Box::new)
}

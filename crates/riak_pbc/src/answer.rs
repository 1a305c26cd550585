//! Answers: the code of each message, and the answers without one.

use crate::frame::append_frame;
use crate::messages::*;
use prost::Message;

/// Codes of answers that have no message.
pub mod code {
    /// Answer to a liveness check.
    pub const PING: u8 = 2;
    /// Answer to a new id of the client.
    pub const SET_CLIENT_ID: u8 = 6;
    /// Answer to a delete.
    pub const DEL: u8 = 14;
    /// Answer to a change of properties, of a bucket or of a bucket type.
    pub const SET_BUCKET: u8 = 22;
    /// Answer to a reset of properties.
    pub const RESET_BUCKET: u8 = 30;
    /// Answer to a login.
    pub const AUTH: u8 = 254;
    /// Answer to the begin of TLS, whose handshake follows.
    pub const START_TLS: u8 = 255;
}

/// Message that is an answer.
pub trait PbcAnswer: Message {
    /// Code of its frames.
    const CODE: u8;
}

macro_rules! answers {
    ($($message:ty: $code:literal,)*) => {
        $(impl PbcAnswer for $message {
            const CODE: u8 = $code;
        })*
    };
}

answers! {
    RpbErrorResp: 0,
    RpbGetClientIdResp: 4,
    RpbGetServerInfoResp: 8,
    RpbGetResp: 10,
    RpbPutResp: 12,
    RpbListBucketsResp: 16,
    RpbListKeysResp: 18,
    RpbGetBucketResp: 20,
    RpbIndexResp: 26,
    RpbGetBucketKeyPreflistResp: 34,
    RpbCounterUpdateResp: 51,
    RpbCounterGetResp: 53,
    DtFetchResp: 81,
    DtUpdateResp: 83,
}

/// Appends the frame of an answer.
pub fn append_answer<A: PbcAnswer>(out: &mut Vec<u8>, answer: &A) {
    append_frame(out, A::CODE, answer);
}

/// Appends the frame of an answer without a message: one of [`code`].
pub fn append_empty(out: &mut Vec<u8>, code: u8) {
    append_frame(out, code, &());
}

/// Appends the frame of an error.
pub fn append_error(out: &mut Vec<u8>, text: &str) {
    let errmsg = text.trim_end().to_string().into();
    append_answer(out, &RpbErrorResp { errmsg, errcode: 1 });
}

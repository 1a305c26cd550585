//! Messages of Riak's Protocol Buffers, by their names in its schema.

use super::model::MatrixTarget;
use bytes::Bytes;
use riak_pbc::*;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use systest::access::AccessVerdict;

/// Messages, tried at each place of an available bucket.
pub const MESSAGES: &str = r#"
RpbGetReq                                                       | read:key
RpbPutReq                                                       | write:key
RpbPutReq return_body                                           | write:key read:key
RpbPutReq without key                                           | write:random
+RpbDelReq                                                      | read:key write:key
RpbListKeysReq                                                  | list:all
RpbListBucketsReq                                               | list:type
RpbGetBucketReq                                                 | read:any
RpbSetBucketReq                                                 | own:all
RpbResetBucketReq                                               | own:all
RpbGetBucketTypeReq                                             | list:cluster
RpbSetBucketTypeReq                                             | own:type
RpbIndexReq                                                     | list:all read:all
RpbIndexReq stream                                              | list:all read:all
RpbGetBucketKeyPreflistReq                                      | read:key
DtFetchReq                                                      | read:key
DtUpdateReq                                                     | write:key
DtUpdateReq return_body                                         | write:key read:key
RpbCounterGetReq                                                | read:key
RpbCounterUpdateReq                                             | write:key
RpbMapRedReq                                                    | -
RpbGetServerInfoReq                                             | -
RpbGetClientIdReq                                               | -
RpbPingReq                                                      | open
"#;

/// Returns the frame of a row at a place.
fn frame(text: &str, target: &MatrixTarget) -> Vec<u8> {
    let (kind, name) = target.bucket.split_once('/').expect("TYPE/BUCKET");
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let (bucket, key, r#type) = (bytes(name), bytes(target.key), bytes(kind));
    let typed = Some(r#type.clone());
    let put = || RpbPutReq {
        bucket: bucket.clone(),
        key: Some(key.clone()),
        content: Some(RpbContent { value: bytes("v"), ..RpbContent::default() }),
        ..RpbPutReq::default()
    };
    let props = Some(RpbBucketProps { allow_mult: Some(true), ..RpbBucketProps::default() });
    let index = || RpbIndexReq {
        bucket: bucket.clone(),
        index: bytes("a_bin"),
        qtype: Some(QUERY_EQUAL),
        key: Some(bytes("b")),
        ..RpbIndexReq::default()
    };
    let update = || DtUpdateReq {
        bucket: bucket.clone(),
        key: Some(key.clone()),
        r#type: r#type.clone(),
        op: Some(DtOp { counter_op: Some(CounterOp { increment: Some(1) }), ..<_>::default() }),
        ..DtUpdateReq::default()
    };
    let mut out = Vec::new();
    macro_rules! send {
        ($code:literal, $message:ident { $($fields:tt)* }) => {
            append_frame(&mut out, $code, &$message { $($fields)*, ..$message::default() })
        };
    }
    match text {
        "RpbGetReq" => send!(9, RpbGetReq { bucket, key }),
        "RpbPutReq" => append_frame(&mut out, 11, &put()),
        "RpbPutReq return_body" => {
            append_frame(&mut out, 11, &RpbPutReq { return_body: Some(true), ..put() });
        }
        "RpbPutReq without key" => append_frame(&mut out, 11, &RpbPutReq { key: None, ..put() }),
        "RpbDelReq" => send!(13, RpbDelReq { bucket, key }),
        "RpbListKeysReq" => send!(17, RpbListKeysReq { bucket }),
        "RpbListBucketsReq" => send!(15, RpbListBucketsReq { r#type: typed }),
        "RpbGetBucketReq" => send!(19, RpbGetBucketReq { bucket }),
        "RpbSetBucketReq" => send!(21, RpbSetBucketReq { bucket, props }),
        "RpbResetBucketReq" => send!(29, RpbResetBucketReq { bucket }),
        "RpbGetBucketTypeReq" => append_frame(&mut out, 31, &RpbGetBucketTypeReq { r#type }),
        "RpbSetBucketTypeReq" => append_frame(&mut out, 32, &RpbSetBucketTypeReq { r#type, props }),
        "RpbIndexReq" => append_frame(&mut out, 25, &index()),
        "RpbIndexReq stream" => {
            append_frame(&mut out, 25, &RpbIndexReq { stream: Some(true), ..index() });
        }
        "RpbGetBucketKeyPreflistReq" => send!(33, RpbGetBucketKeyPreflistReq { bucket, key }),
        "DtFetchReq" => send!(80, DtFetchReq { bucket, key, r#type }),
        "DtUpdateReq" => append_frame(&mut out, 82, &update()),
        "DtUpdateReq return_body" => {
            append_frame(&mut out, 82, &DtUpdateReq { return_body: Some(true), ..update() });
        }
        "RpbCounterGetReq" => send!(52, RpbCounterGetReq { bucket, key }),
        "RpbCounterUpdateReq" => send!(50, RpbCounterUpdateReq { bucket, key, amount: Some(1) }),
        "RpbMapRedReq" => append_frame(&mut out, 23, &RpbMapRedReq::default()),
        "RpbGetServerInfoReq" => append_empty(&mut out, 7),
        "RpbGetClientIdReq" => append_empty(&mut out, 3),
        "RpbPingReq" => append_empty(&mut out, 1),
        text => panic!("no message is called {text}"),
    }
    out
}

/// Client of Protocol Buffers with the login of a user, or without.
pub struct PbcCaller<'a> {
    address: SocketAddr,
    login: Option<(&'a str, &'a str)>,
    stream: Option<TcpStream>,
}

impl PbcCaller<'_> {
    pub fn new<'a>(address: SocketAddr, login: Option<(&'a str, &'a str)>) -> PbcCaller<'a> {
        PbcCaller { address, login, stream: None }
    }

    /// Sends the message of a row, and reads all frames of its answer.
    pub fn ask(&mut self, text: &str, target: &MatrixTarget) -> AccessVerdict {
        let is_stream = text == "RpbListKeysReq" || text == "RpbIndexReq stream";
        let frame = frame(text, target);
        match self.exchange(&frame, is_stream) {
            Ok(error) if error.starts_with("Permission denied") => AccessVerdict::Forbidden,
            Ok(error) if error.starts_with("log in first") => AccessVerdict::Unauthenticated,
            Ok(_) => AccessVerdict::Granted,
            Err(error) => {
                self.stream = None;
                AccessVerdict::Unavailable(error.to_string())
            }
        }
    }

    /// Returns the text of the error that answers a frame; empty if it succeeds.
    fn exchange(&mut self, frame: &[u8], is_stream: bool) -> io::Result<String> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(connect(self.address, self.login)?),
        };
        stream.write_all(frame)?;
        loop {
            let (code, message) = receive(stream)?;
            // An error begins with its text, behind a tag and a length.
            if code == 0 {
                let text = message.get(2..).unwrap_or_default();
                let start = usize::from(message.get(1).is_some_and(|length| *length > 127));
                let text = text.get(start..).unwrap_or_default();
                return Ok(String::from_utf8_lossy(text).into_owned());
            }
            // The last frame of a stream has the field `done`.
            let is_last =
                [&b"\x10\x01"[..], b"\x20\x01"].iter().any(|done| message.ends_with(done));
            if !is_stream || is_last {
                return Ok(String::new());
            }
        }
    }
}

fn connect(address: SocketAddr, login: Option<(&str, &str)>) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    if let Some((user, password)) = login {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let mut frame = Vec::new();
        let auth = RpbAuthReq { user: bytes(user), password: bytes(password) };
        append_frame(&mut frame, 253, &auth);
        stream.write_all(&frame)?;
        let (code, message) = receive(&mut stream)?;
        if code != code::AUTH {
            return Err(io::Error::other(String::from_utf8_lossy(&message).into_owned()));
        }
    }
    Ok(stream)
}

fn receive(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; FRAME_HEAD_BYTES];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let mut message = vec![0; length as usize - 1];
    stream.read_exact(&mut message)?;
    Ok((head[4], message))
}

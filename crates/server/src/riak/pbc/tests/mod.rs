//! Tests over a socket with a real node: frames that a client of Riak sends and reads.

mod hostile;
mod login;
mod objects;
mod queries;

use crate::ServerSettings;
use crate::tests::test_server::TestServer;
use bytes::Bytes;
use prost::Message;
use riak_pbc::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Returns a node whose second listener takes Protocol Buffers.
fn server() -> TestServer {
    let pbc_listen = vec!["127.0.0.1:0".parse().expect("an address")];
    TestServer::with_settings(ServerSettings { pbc_listen, ..ServerSettings::default() })
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// PbcClient connection.
struct PbcClient(TcpStream);

impl PbcClient {
    fn connect(server: &TestServer) -> PbcClient {
        let stream = TcpStream::connect(server.addresses[1]).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        PbcClient(stream)
    }

    fn send(&mut self, code: u8, message: &impl Message) {
        let mut frame = Vec::new();
        append_frame(&mut frame, code, message);
        self.0.write_all(&frame).expect("sent");
    }

    /// Returns the code and the message of the next frame.
    fn receive(&mut self) -> (u8, Bytes) {
        let mut head = [0; FRAME_HEAD_BYTES];
        self.0.read_exact(&mut head).expect("an answer");
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let mut message = vec![0; length as usize - 1];
        self.0.read_exact(&mut message).expect("a whole answer");
        (head[4], message.into())
    }

    /// Sends a request whose answer is a message.
    fn ask<A: PbcAnswer + Default>(&mut self, code: u8, message: &impl Message) -> A {
        self.send(code, message);
        self.answer()
    }

    fn answer<A: PbcAnswer + Default>(&mut self) -> A {
        let (code, message) = self.receive();
        assert_eq!(code, A::CODE, "{:?}", String::from_utf8_lossy(&message));
        A::decode(message).expect("a message of its code")
    }

    /// Sends a request whose answer has no message.
    fn ask_empty(&mut self, code: u8, message: &impl Message, answered: u8) {
        self.send(code, message);
        let (code, message) = self.receive();
        assert_eq!((code, &message[..]), (answered, &b""[..]));
    }

    /// Sends a request that fails, and returns the text of the error.
    fn refused(&mut self, code: u8, message: &impl Message) -> String {
        let RpbErrorResp { errmsg, errcode } = self.ask(code, message);
        assert_eq!(errcode, 1);
        String::from_utf8_lossy(&errmsg).into_owned()
    }

    /// Returns true if the server has ended the connection.
    fn has_ended(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 1]), Ok(0))
    }
}

fn get(key: &'static str) -> RpbGetReq {
    RpbGetReq { bucket: text("fruit"), key: text(key), ..RpbGetReq::default() }
}

fn put(key: &'static str, value: &'static str) -> RpbPutReq {
    let content = RpbContent { value: text(value), ..RpbContent::default() };
    let (key, content) = (Some(text(key)), Some(content));
    RpbPutReq { bucket: text("fruit"), key, content, ..RpbPutReq::default() }
}

fn delete(key: &'static str) -> RpbDelReq {
    RpbDelReq { bucket: text("fruit"), key: text(key), ..RpbDelReq::default() }
}

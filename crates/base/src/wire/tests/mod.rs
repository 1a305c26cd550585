//! Requests, replies and errors as bytes: laws, limits and golden bytes.

mod access;
mod available;
mod counted;
mod examples;
mod feed;
mod golden;
mod index;
mod key_versions;
mod laws;
mod level;
mod limits;
mod ring;
mod tags;

use crate::codec::Malformed;
use crate::wire::{read_answer, write_answer};
use crate::{BucketName, Call, Error, Reply, Request, Result, Update};
use bytes::Bytes;

fn request(call: Call) -> Request {
    Request { bucket: BucketName::default(), call, retry: None }
}

fn request_bytes(request: &Request) -> Bytes {
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    assert_eq!(bytes.len(), request.wire_bytes());
    bytes.into()
}

fn reply_bytes(reply: &Reply) -> Bytes {
    let mut bytes = Vec::new();
    reply.write(&mut bytes);
    assert_eq!(bytes.len(), reply.wire_bytes());
    bytes.into()
}

fn error_bytes(error: &Error) -> Bytes {
    let mut bytes = Vec::new();
    error.write(&mut bytes);
    bytes.into()
}

fn answer_bytes(answer: &Result<Reply>, bytes_max: usize) -> std::result::Result<Bytes, Malformed> {
    let mut bytes = b"before".to_vec();
    write_answer(answer, bytes_max, &mut bytes);
    let bytes = Bytes::from(bytes).slice(6..);
    read_answer(&bytes).map(|_| bytes)
}

fn update_request(update: Update) -> Request {
    request(Call::Update(update))
}

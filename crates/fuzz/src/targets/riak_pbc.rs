//! Frames of Riak's Protocol Buffers interface: any bytes are a request, or are refused.

use bytes::Bytes;
use riak_pbc::{FRAME_HEAD_BYTES, Framed, PbcRequest, next_frame};

/// Frames as a client sends them: each decodes or is refused, and what it says has a meaning or is
/// refused.
pub fn run(input: &[u8]) {
    let mut rest = input;
    while let Framed::Complete { code, bytes } = next_frame(rest) {
        assert!(bytes >= FRAME_HEAD_BYTES && bytes <= rest.len(), "a frame is within its input");
        let (frame, behind) = rest.split_at(bytes);
        rest = behind;
        match PbcRequest::decode(code, Bytes::copy_from_slice(&frame[FRAME_HEAD_BYTES..])) {
            Ok(request) => interpret(request),
            Err(refusal) => assert_ne!(refusal.to_string(), ""),
        }
    }
}

fn interpret(request: PbcRequest) {
    match request {
        PbcRequest::Put(put) => {
            if let Some(content) = put.content {
                let _ = riak_pbc::to_content(content).headers.check();
            }
        }
        PbcRequest::DtUpdate(update) => {
            let _ = update.op.map(riak_pbc::to_operation);
        }
        PbcRequest::SetBucket(set) => {
            let document = set.props.as_ref().map(riak_pbc::to_json);
            let _ = document.map(|document| riak_pbc::to_rpb_props(&document.into()));
        }
        _ => {}
    }
}

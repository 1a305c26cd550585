//! Fuzzing: what must hold of greetings and frames, whatever their bytes are. Only the crate `fuzz`
//! builds this.

use super::admission::{KnownIncarnations, admit};
use super::arbitrate::{Phase, arbitrate};
use super::credential::Credential;
use super::frame::{Decoder, Encoder, FIRST_ALLOCATION_BYTES, FrameEvent, HEAD_BYTES};
use super::handshake::{ENVELOPE_BYTES, Greeting, Hello, PeerIdentity, Received, enveloped};
use super::incarnation::Incarnation;
use super::message::Lane;
use super::refusal::Refusal;
use super::transcript::Transcript;
use super::versions::VERSIONS;
use base::codec::checksum;
use base::{ClusterId, ClusterSecret, NodeId};
use bytes::BytesMut;

const SALT: u64 = 0x5A17;

/// Decodes a greeting: an envelope and its body, or a body that gets a valid envelope.
pub fn greeting(is_sealed: bool, bytes: &[u8]) {
    let greeting = if is_sealed { enveloped(bytes) } else { bytes.to_vec() };
    let Ok(received) = decode(&greeting) else { return };
    let Received { greeting, mac, .. } = &received;
    let again = match mac {
        None => greeting.encode(),
        Some(mac) => greeting.encode_signed(|_| *mac).0,
    };
    let again = decode(&again).expect("what was encoded decodes");
    assert_eq!(again.mac, *mac);
    match (greeting, &again.greeting) {
        // Bytes that are no text are shown escaped, once more each time.
        (Greeting::Refused { code, text }, Greeting::Refused { code: other, .. }) => {
            assert_eq!(code, other);
            assert!(!text.contains(char::is_control), "{text:?}");
        }
        (one, other) => assert_eq!(one, other),
    }
    judge(&received);
}

fn decode(greeting: &[u8]) -> Result<Received, Refusal> {
    let (envelope, body) =
        greeting.split_first_chunk::<ENVELOPE_BYTES>().ok_or(Refusal::Malformed("length"))?;
    let length = Greeting::body_bytes(envelope)?;
    Greeting::decode(envelope, body.get(..length).ok_or(Refusal::Malformed("length"))?, VERSIONS)
}

/// Passes a greeting to everything that judges one. Without the secret it must prove nothing.
fn judge(received: &Received) {
    let secret = ClusterSecret::new([0xA7; ClusterSecret::BYTES]);
    let mut transcript = Transcript::new(Some(Credential { secret, is_required: true }));
    assert_eq!(transcript.verify(received), Err(Refusal::Unauthenticated));
    assert!(!transcript.trusts(received) && transcript.proven().is_none());
    let Greeting::Hello(hello) = &received.greeting else { return };
    for incarnation in [0, 7, u64::MAX] {
        let known =
            KnownIncarnations { incarnation: Incarnation(incarnation), ..Default::default() };
        if let Err(refusal) = admit(&local_identity(hello), hello, Some(known)) {
            let _ = (refusal.to_string(), refusal.redacted_text());
        }
        let phase = Phase::Connected { link: incarnation, incarnation: Incarnation(incarnation) };
        let _ = arbitrate(NodeId(1), phase, hello);
    }
}

/// Returns the identity of a node that the hello may be meant for.
fn local_identity(hello: &Hello) -> PeerIdentity {
    let mut identity = hello.identity.clone();
    (identity.cluster, identity.node) = (ClusterId(hello.identity.cluster.0), hello.target);
    identity
}

/// A frame to decode.
pub struct FuzzedFrame {
    /// True if its checksum is valid.
    pub is_sealed: bool,
    /// Number of its lane.
    pub lane: u32,
    /// Its group.
    pub group: u32,
    /// Length of its message. `None`: that of its piece.
    pub total: Option<u32>,
    /// True if it has the next number.
    pub is_next: bool,
    /// Bytes of the message.
    pub piece: Vec<u8>,
}

/// Decodes frames as they arrive in chunks of this size: the same as if they arrived at once, in
/// bounded memory, and every message reads back.
pub fn frames(frames: &[FuzzedFrame], chunk_bytes: usize) {
    let bytes: Vec<u8> =
        (0..).zip(frames).flat_map(|(number, frame)| sealed(number, frame)).collect();
    let (events, end) = read(&bytes, bytes.len().max(1));
    assert_eq!(read(&bytes, chunk_bytes), (events.clone(), end));
    for event in &events {
        let FrameEvent::Message { lane, group, payload } = event else { continue };
        assert!(payload.len() <= lane.bytes_max());
        let (mut out, mut encoder) = (Vec::new(), Encoder::new(SALT));
        for piece in payload.chunks(base::limits::PEER_PIECE_BYTES_MAX) {
            encoder.copied(&mut out, *lane, *group, payload.len(), [piece, &[]]);
        }
        if !payload.is_empty() {
            assert_eq!(read(&out, chunk_bytes).0, std::slice::from_ref(event));
        }
    }
}

fn sealed(number: u32, frame: &FuzzedFrame) -> Vec<u8> {
    let piece = &frame.piece;
    let total = frame.total.unwrap_or(piece.len() as u32);
    let number = if frame.is_next { number } else { number ^ 1 };
    let mut head = vec![0; 8];
    for word in [piece.len() as u32, frame.lane, frame.group, total, number] {
        head.extend_from_slice(&word.to_le_bytes());
    }
    let mut sum = checksum(piece, checksum(&head[8..], SALT));
    if !frame.is_sealed {
        sum ^= 1;
    }
    head[..8].copy_from_slice(&sum.to_le_bytes());
    [&head[..], piece].concat()
}

/// Decodes bytes in chunks. Returns the events, and true if they ended without an error.
fn read(bytes: &[u8], chunk_bytes: usize) -> (Vec<FrameEvent>, bool) {
    let (mut decoder, mut buffer, mut events) = (Decoder::new(SALT), BytesMut::new(), Vec::new());
    for chunk in bytes.chunks(chunk_bytes) {
        buffer.extend_from_slice(chunk);
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => return (events, false),
            }
        }
        // A claim costs at most one allocation of the first size in each lane.
        let claims_max = Lane::ALL.len() * FIRST_ALLOCATION_BYTES;
        assert!(decoder.buffered_bytes() <= 2 * bytes.len() + claims_max);
        assert!(buffer.len() <= HEAD_BYTES + base::limits::PEER_PIECE_BYTES_MAX + chunk.len());
    }
    (events, true)
}

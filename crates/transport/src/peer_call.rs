//! Call of a peer: a connection whose hello has arrived, on its way to the peer's task.

use super::handshake::Hello;
use super::refusal::Refusal;
use super::transcript::Transcript;
use tls::Stream;
use tokio::sync::oneshot;

/// Incoming connection, with the transcript of its greetings.
pub(super) struct Caller {
    pub(super) stream: Stream,
    pub(super) transcript: Transcript,
}

/// Call that has sent its hello.
pub(super) struct PeerCall {
    pub(super) caller: Caller,
    pub(super) hello: Hello,
    /// Channel on which a refused call is returned.
    pub(super) on_refusal: oneshot::Sender<(Caller, Refusal)>,
}

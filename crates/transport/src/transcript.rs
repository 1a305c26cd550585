//! Authentication of greetings: each carries a MAC under the cluster's secret over all greetings of
//! its connection so far.
//!
//! The hello's MAC covers the hello; the welcome's covers hello and welcome; those of go and
//! refused cover all earlier greetings and themselves. Both sides draw a nonce for each connection,
//! so a recorded greeting can't start a second one: a node that replays a hello can't sign the go.
//!
//! Promises: where the secret is required, a connection begins only between two nodes that hold it;
//! a refusal that stops a node counts only if a holder of the secret sent it.
//! Never: encrypts, or authenticates the frames after the greetings. The secret salts their
//! checksum, so the greetings alone do not suffice to forge one; but it is no MAC.

use super::credential::Credential;
use super::handshake::{Greeting, Received};
use super::refusal::Refusal;
use base::ClusterSecret;

/// Transcript of the greetings on one connection.
#[derive(Clone, Debug)]
pub(super) struct Transcript {
    /// Secret for signing. `None`: this node or the other side holds none.
    secret: Option<ClusterSecret>,
    /// True if this node holds a secret, even if the other side did not sign.
    holds_secret: bool,
    /// True if the other side must sign from here on.
    is_required: bool,
    /// True if the other side has signed a greeting.
    is_proven: bool,
    /// Bytes that the MAC of each greeting covered.
    covered: Vec<Vec<u8>>,
}

impl Transcript {
    /// Begins the transcript of a new connection.
    pub(super) fn new(credential: Option<Credential>) -> Transcript {
        let is_required = credential.as_ref().is_some_and(|credential| credential.is_required);
        let secret = credential.map(|credential| credential.secret);
        let (holds_secret, is_proven, covered) = (secret.is_some(), false, Vec::new());
        Transcript { secret, holds_secret, is_required, is_proven, covered }
    }

    /// Returns the bytes of this node's next greeting, signed if it holds the secret.
    pub(super) fn sign(&mut self, greeting: &Greeting) -> Vec<u8> {
        let Some(secret) = &self.secret else { return greeting.encode() };
        let (bytes, signed) =
            greeting.encode_signed(|signed| secret.mac(&parts(&self.covered, signed)));
        self.covered.push(signed);
        bytes
    }

    /// Records the other side's next greeting, if its MAC is valid or not required.
    pub(super) fn verify(&mut self, received: &Received) -> Result<(), Refusal> {
        let Some(secret) = &self.secret else { return Ok(()) };
        match &received.mac {
            Some(mac) if secret.verifies(&parts(&self.covered, &received.signed), mac) => {
                self.covered.push(received.signed.clone());
                // A side that signed once always signs: an unsigned greeting then comes from
                // another node.
                (self.is_required, self.is_proven) = (true, true);
                Ok(())
            }
            None if !self.is_required => {
                self.secret = None;
                Ok(())
            }
            _ => Err(Refusal::Unauthenticated),
        }
    }

    /// Returns true if the other side's last greeting may stop this node: it is signed, or this
    /// node holds no secret to verify it by.
    pub(super) fn trusts(&self, received: &Received) -> bool {
        let Some(secret) = &self.secret else { return !self.holds_secret };
        let covered = parts(&self.covered, &received.signed);
        received.mac.as_ref().is_some_and(|mac| secret.verifies(&covered, mac))
    }

    /// Returns the secret, once the other side has proven that it holds it.
    pub(super) fn proven(&self) -> Option<&ClusterSecret> {
        self.secret.as_ref().filter(|_| self.is_proven)
    }
}

fn parts<'a>(covered: &'a [Vec<u8>], signed: &'a [u8]) -> Vec<&'a [u8]> {
    covered.iter().map(Vec::as_slice).chain([signed]).collect()
}

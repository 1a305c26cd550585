//! Authentication of greetings: each carries a MAC under the cluster's secret over everything that
//! was said on its connection so far.
//!
//! The hello's MAC covers the hello; the welcome's covers hello and welcome; those of go and
//! refused cover what was said before and themselves. Both sides draw a nonce for each connection,
//! so a recorded greeting starts no second one: whoever replays a hello can't sign the go.
//!
//! Promises: where the secret is required, a connection begins only between two nodes that hold
//! it; a refusal that stops a node counts only if a holder of the secret said it.
//! Never: encrypts, or authenticates the frames after the greetings (their checksum is salted by
//! the secret, which stops who can't read this machine's memory from making one by knowledge of
//! the greetings alone; it is no MAC).

use super::credential::Credential;
use super::handshake::{Greeting, Received};
use super::refusal::Refusal;
use base::ClusterSecret;

/// The greetings of one connection, as far as they were said.
#[derive(Clone, Debug)]
pub(super) struct Transcript {
    /// None: this node or the other side holds no secret.
    secret: Option<ClusterSecret>,
    /// True if this node holds a secret, whatever the other side has shown.
    holds_secret: bool,
    /// True if the other side must sign from here on.
    is_required: bool,
    /// True if the other side has signed a greeting.
    is_proven: bool,
    /// The bytes that each greeting's MAC covered.
    said: Vec<Vec<u8>>,
}

impl Transcript {
    /// A connection on which nothing was said.
    pub(super) fn new(credential: Option<Credential>) -> Transcript {
        let is_required = credential.as_ref().is_some_and(|credential| credential.is_required);
        let secret = credential.map(|credential| credential.secret);
        let (holds_secret, is_proven, said) = (secret.is_some(), false, Vec::new());
        Transcript { secret, holds_secret, is_required, is_proven, said }
    }

    /// Returns the bytes of this node's next greeting, signed if it holds the secret.
    pub(super) fn sign(&mut self, greeting: &Greeting) -> Vec<u8> {
        let Some(secret) = &self.secret else { return greeting.encode() };
        let (bytes, signed) =
            greeting.encode_signed(|signed| secret.mac(&parts(&self.said, signed)));
        self.said.push(signed);
        bytes
    }

    /// Takes the other side's next greeting down, if its MAC holds or need not be there.
    pub(super) fn verify(&mut self, received: &Received) -> Result<(), Refusal> {
        let Some(secret) = &self.secret else { return Ok(()) };
        match &received.mac {
            Some(mac) if secret.verifies(&parts(&self.said, &received.signed), mac) => {
                self.said.push(received.signed.clone());
                // A side that signs once signs always: or another one spoke on.
                (self.is_required, self.is_proven) = (true, true);
                Ok(())
            }
            None if !self.is_required => {
                self.secret = None;
                Ok(())
            }
            _ => Err(Refusal::Unproven),
        }
    }

    /// Returns true if the other side's last words may stop this node: they are signed, or this
    /// node holds no secret to verify them by.
    pub(super) fn trusts(&self, received: &Received) -> bool {
        let Some(secret) = &self.secret else { return !self.holds_secret };
        let covered = parts(&self.said, &received.signed);
        received.mac.as_ref().is_some_and(|mac| secret.verifies(&covered, mac))
    }

    /// The secret, once the other side has proven that it holds it.
    pub(super) fn proven(&self) -> Option<&ClusterSecret> {
        self.secret.as_ref().filter(|_| self.is_proven)
    }
}

fn parts<'a>(said: &'a [Vec<u8>], signed: &'a [u8]) -> Vec<&'a [u8]> {
    said.iter().map(Vec::as_slice).chain([signed]).collect()
}

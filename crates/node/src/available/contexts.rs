//! What a client has seen of a key, as the opaque bytes it is given and brings back.

use super::request::Asked;
use base::codec::{Malformed, checksum};
use base::dots::DotContext;
use base::limits::CONTEXT_BYTES_MAX;
use base::{Actor, Context, Error, Key, Reason, Result};

impl Asked<'_> {
    pub(super) fn context(&self, key: &Key, seen: &DotContext<Actor>) -> Result<Context> {
        let bytes = seen.encode(self.salt(key));
        if bytes.len() > CONTEXT_BYTES_MAX {
            let text = format!("a context of {} bytes (context_bytes_max)", bytes.len());
            return Err(Error::new(Reason::TooLarge, text));
        }
        Ok(Context(bytes.into()))
    }

    pub(super) fn seen(&self, key: &Key, context: &Context) -> Result<DotContext<Actor>> {
        DotContext::decode(&context.0, self.salt(key)).map_err(|Malformed(field)| {
            let text = format!("{field}: send a context as it was given for this very key");
            Error::new(Reason::Malformed, text)
        })
    }

    /// A context is one key's in one cluster.
    fn salt(&self, key: &Key) -> u64 {
        checksum(key, checksum(self.bucket.full().as_bytes(), self.inner.cluster.0))
    }
}

//! Codec of causal contexts, the opaque bytes that clients are given and bring back.

use super::layout::Row;
use base::codec::{Malformed, checksum};
use base::dots::DotContext;
use base::limits::CONTEXT_BYTES_MAX;
use base::{Actor, BucketName, ClusterId, Context, Error, Key, Reason, Result};

/// Returns the context of a client that was shown a row. Every incarnation of a node that did not
/// shut down cleanly leaves an actor behind in the rows that it wrote. So a row may hold more
/// actors than a context can name; it still has to be read and written.
pub(super) fn seen_in(row: &Row) -> DotContext<Actor> {
    shortened(row.join(), row)
}

/// Shortens a context to what a client can be given: first the actors whose values are in the row,
/// so that a write replaces the values that it was shown. The others have no value left in this
/// row; a replica that still has one learns from the row that it was replaced.
pub(super) fn shortened(seen: DotContext<Actor>, row: &Row) -> DotContext<Actor> {
    let named = |actor: &Actor| row.siblings().any(|(dot, _)| dot.is_some_and(|it| it.0 == actor));
    seen.shortened(named)
}

/// Encoding of the contexts of one bucket's keys: a context is one key's in one cluster.
pub(super) struct ContextCodec<'a> {
    pub bucket: &'a BucketName,
    pub cluster: ClusterId,
}

impl ContextCodec<'_> {
    /// Encodes what a client has seen of a key.
    pub(super) fn encode(&self, key: &Key, seen: &DotContext<Actor>) -> Result<Context> {
        let bytes = seen.encode(self.salt(key));
        if bytes.len() > CONTEXT_BYTES_MAX {
            let text = format!("a context of {} bytes (context_bytes_max)", bytes.len());
            return Err(Error::new(Reason::TooLarge, text));
        }
        Ok(Context(bytes.into()))
    }

    /// Encodes the context of a data type, of which a part would not do: any actor's dots may live
    /// within the value. Empty where it would be too long: a remove then takes away what its
    /// replica knows.
    pub(super) fn encode_typed(&self, key: &Key, seen: &DotContext<Actor>) -> Context {
        self.encode(key, seen).unwrap_or_default()
    }

    /// Decodes what a client has seen of a key; `Malformed`: the context is another key's, or none.
    pub(super) fn decode(&self, key: &Key, context: &Context) -> Result<DotContext<Actor>> {
        DotContext::decode(&context.0, self.salt(key)).map_err(|Malformed(field)| {
            let text = format!("{field}: send a context as it was given for this very key");
            Error::new(Reason::Malformed, text)
        })
    }

    fn salt(&self, key: &Key) -> u64 {
        checksum(key, checksum(self.bucket.full().as_bytes(), self.cluster.0))
    }
}

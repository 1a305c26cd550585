//! Codec of causal contexts: opaque bytes that clients receive and send back.

use super::layout::Row;
use base::codec::{Malformed, checksum};
use base::dots::DotContext;
use base::limits::CONTEXT_BYTES_MAX;
use base::{Actor, BucketName, ClusterId, Context, Error, Key, Reason, Result};

/// Returns the context for a client that has read a row. Every incarnation of a node that did not
/// shut down cleanly leaves an actor in the rows that it wrote. So a row may hold more actors than
/// a context can name, and must still be readable and writable.
pub(super) fn client_context(row: &Row) -> DotContext<Actor> {
    shorten_context(row.join(), row)
}

/// Shortens a context to the maximum size. The actors whose values are in the row come first, so
/// that a write replaces the values that the client has read. The other actors have no value left
/// in this row; a replica that still has one drops it when it merges the row.
pub(super) fn shorten_context(seen: DotContext<Actor>, row: &Row) -> DotContext<Actor> {
    let has_value =
        |actor: &Actor| row.siblings().any(|(dot, _)| dot.is_some_and(|it| it.0 == actor));
    seen.shorten(has_value)
}

/// Codec of the contexts of one bucket's keys. A context is valid for one key in one cluster.
pub(super) struct ContextCodec<'a> {
    pub bucket: &'a BucketName,
    pub cluster: ClusterId,
}

impl ContextCodec<'_> {
    /// Encodes the context that a client has seen of a key.
    pub(super) fn encode(&self, key: &Key, seen: &DotContext<Actor>) -> Result<Context> {
        let bytes = seen.encode(self.salt(key));
        if bytes.len() > CONTEXT_BYTES_MAX {
            let text = format!("a context of {} bytes (context_bytes_max)", bytes.len());
            return Err(Error::new(Reason::TooLarge, text));
        }
        Ok(Context(bytes.into()))
    }

    /// Encodes the context of a data type, which can't be shortened: any actor's dots may be within
    /// the value. Empty if it would be too long: a remove then removes everything that its replica
    /// has seen.
    pub(super) fn encode_typed(&self, key: &Key, seen: &DotContext<Actor>) -> Context {
        self.encode(key, seen).unwrap_or_default()
    }

    /// Decodes the context that a client has seen of a key. `Malformed`: it belongs to another key,
    /// or is no context.
    pub(super) fn decode(&self, key: &Key, context: &Context) -> Result<DotContext<Actor>> {
        DotContext::decode(&context.0, self.salt(key)).map_err(|Malformed(field)| {
            let text =
                format!("{field}: send a context unchanged, as it was returned for this key");
            Error::new(Reason::Malformed, text)
        })
    }

    fn salt(&self, key: &Key) -> u64 {
        checksum(key, checksum(self.bucket.full().as_bytes(), self.cluster.0))
    }
}

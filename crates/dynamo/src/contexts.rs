//! Codec of causal contexts: opaque bytes that clients receive and send back.
//!
//! A cluster that has a secret seals its contexts with a MAC. So a client can send only contexts
//! that the cluster returned for that key: it can't replace values that it has not read, or name
//! dots that no vnode minted, which would make rows grow and vnodes change their actors.
//!
//! A cluster of an earlier version has no secret before its operator makes one. Until every member
//! has it, contexts carry a checksum.

use base::codec::{Malformed, checksum};
use base::dots::{ContextMac, DotContext};
use base::limits::CONTEXT_BYTES_MAX;
use base::{
    Actor, BucketName, ClusterId, ClusterSecret, Context, DerivedKey, Error, Key, Reason, Result,
};
use runtime::metrics::Metrics;
use std::sync::Arc;
use vnode_rows::layout::Row;

/// Separates the key of contexts from keys for other purposes.
const PURPOSE: &str = "credenza 2026 causal contexts";

/// Key that seals contexts, derived from the cluster's secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContextKey {
    key: DerivedKey,
    /// True if every member has it: then all contexts are sealed, and others are refused.
    is_required: bool,
}

impl ContextKey {
    /// Derives the key.
    pub(super) fn new(secret: &ClusterSecret, is_required: bool) -> ContextKey {
        ContextKey { key: secret.derive_key(PURPOSE), is_required }
    }

    /// Returns true if it is the same key, and required only here.
    pub(super) fn is_newer_than(&self, other: &ContextKey) -> bool {
        self.key == other.key && self.is_required && !other.is_required
    }

    fn mac(&self, (bucket, key): (&BucketName, &Key), content: &[u8]) -> ContextMac {
        let mac = self.key.mac(&[bucket.full().as_bytes(), key, content]);
        std::array::from_fn(|at| mac[at])
    }
}

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
    bucket: &'a BucketName,
    cluster: ClusterId,
    /// Key of the cluster. `None`: it has no secret, or this node has not received it.
    context_key: Option<Arc<ContextKey>>,
    metrics: &'a Metrics,
}

impl<'a> ContextCodec<'a> {
    /// Returns the codec of a bucket.
    pub(super) fn new(
        bucket: &'a BucketName,
        cluster: ClusterId,
        context_key: Option<Arc<ContextKey>>,
        metrics: &'a Metrics,
    ) -> ContextCodec<'a> {
        ContextCodec { bucket, cluster, context_key, metrics }
    }

    /// Encodes the context that a client has seen of a key.
    pub(super) fn encode(&self, key: &Key, seen: &DotContext<Actor>) -> Result<Context> {
        let bytes = match self.context_key.as_ref().filter(|known| known.is_required) {
            Some(known) => {
                seen.encode_authenticated(|content| known.mac((self.bucket, key), content))
            }
            None => seen.encode(self.salt(key)),
        };
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
    /// the cluster did not return it, or it is no context.
    pub(super) fn decode(&self, key: &Key, context: &Context) -> Result<DotContext<Actor>> {
        let is_authenticated = DotContext::<Actor>::is_authenticated(&context.0);
        let decoded = match &self.context_key {
            Some(known) if is_authenticated => {
                DotContext::decode_authenticated(&context.0, |content| {
                    known.mac((self.bucket, key), content)
                })
            }
            None if is_authenticated => {
                let text = "this node has not received the secret of its cluster yet: nothing was \
                            done; ask another node";
                return Err(Error::new(Reason::StaleReplica, text));
            }
            Some(known) if known.is_required => {
                let former = DotContext::<Actor>::decode(&context.0, self.salt(key));
                former.and(Err(Malformed("the context is of before this cluster had its secret")))
            }
            _ => DotContext::decode(&context.0, self.salt(key)),
        };
        decoded.map_err(|Malformed(field)| {
            Metrics::count(&self.metrics.available.contexts_refused);
            let text = format!(
                "{field}: read the key again, and send its context unchanged, as it was returned \
                 for this key"
            );
            Error::new(Reason::Malformed, text)
        })
    }

    fn salt(&self, key: &Key) -> u64 {
        checksum(key, checksum(self.bucket.full().as_bytes(), self.cluster.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;

    const CLUSTER: ClusterId = ClusterId(7);

    /// Codec of a bucket on a node with this key.
    fn codec<'a>(
        bucket: &'a BucketName,
        key: Option<(u8, bool)>,
        metrics: &'a Metrics,
    ) -> ContextCodec<'a> {
        let key = key.map(|(secret, is_required)| {
            Arc::new(ContextKey::new(&ClusterSecret::new([secret; 32]), is_required))
        });
        ContextCodec::new(bucket, CLUSTER, key, metrics)
    }

    fn seen() -> DotContext<Actor> {
        let actor = Actor { node: NodeId(1), vnode: 3, incarnation: 1 };
        DotContext::from_counts([(actor, 5)])
    }

    #[test]
    fn context_of_another_key_bucket_or_secret_is_refused_and_counted() {
        let (bucket, other) = (BucketName::default(), BucketName::parse("other").expect("a name"));
        let (metrics, key) = (Metrics::default(), Key::from_static(b"k"));
        let own = codec(&bucket, Some((1, true)), &metrics);
        let context = own.encode(&key, &seen()).expect("it is short");
        assert_eq!(own.decode(&key, &context), Ok(seen()));
        let refused = [
            own.decode(&Key::from_static(b"l"), &context),
            codec(&other, Some((1, true)), &metrics).decode(&key, &context),
            codec(&bucket, Some((2, true)), &metrics).decode(&key, &context),
        ];
        for refused in refused {
            let error = refused.expect_err("it is not of this key");
            assert_eq!(error.reason, Reason::Malformed);
            assert!(error.text().contains("read the key again"), "{error}");
        }
        let count = metrics.available.contexts_refused.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(count, 3);
    }

    #[test]
    fn context_with_a_checksum_is_accepted_until_the_secret_is_required() {
        let (bucket, metrics, key) =
            (BucketName::default(), Metrics::default(), Key::from_static(b"k"));
        let without = codec(&bucket, None, &metrics);
        let offered = codec(&bucket, Some((1, false)), &metrics);
        let required = codec(&bucket, Some((1, true)), &metrics);
        let old = without.encode(&key, &seen()).expect("it is short");
        assert_eq!(offered.encode(&key, &seen()), Ok(old.clone()), "others may lack the secret");
        let new = required.encode(&key, &seen()).expect("it is short");
        for codec in [&without, &offered] {
            assert_eq!(codec.decode(&key, &old), Ok(seen()));
        }
        for codec in [&offered, &required] {
            assert_eq!(codec.decode(&key, &new), Ok(seen()));
        }
        // Anybody can compute the checksum.
        let error = required.decode(&key, &old).expect_err("it is of before the secret");
        assert_eq!(error.reason, Reason::Malformed);
        assert!(error.text().contains("of before this cluster had its secret"), "{error}");
        let error = without.decode(&key, &new).expect_err("it can't be checked");
        assert_eq!(error.reason, Reason::StaleReplica);
    }
}

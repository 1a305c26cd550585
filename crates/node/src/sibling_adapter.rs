//! Adapter for clients that use siblings and contexts on a consistent bucket: one value or none,
//! and a context that is the row's version. So their conditional requests are atomic.
//!
//! A consistent bucket keeps values alone: a media type that comes with one is forgotten, other
//! headers are refused.

use crate::route::Router;
use base::codec::{Malformed, Reader, Writer};
use base::request::{Expiry, Missing, Steps, When};
use base::{
    AvailableCall, Body, BucketName, Call, Condition, Content, Context, Error, Key, Keys, Outcome,
    Range, Read, ReadLevel, Reason, Reply, Request, Result, Row, Sibling, Siblings, Store, Update,
    Version, Vtag, Want,
};
use bytes::Bytes;
use runtime::submit::Submitted;
use std::sync::Arc;

/// The first byte of a context that is a version.
const VERSION: u8 = 0xC5;

impl Router {
    /// Answers a call for available buckets on a consistent bucket.
    pub(crate) fn one_value(
        self: &Arc<Router>,
        name: &BucketName,
        call: &AvailableCall,
    ) -> Submitted {
        let asked = BucketCaller { router: self.clone(), bucket: name.clone() };
        let call = call.clone();
        Submitted::Later(Box::pin(async move { asked.answer(call).await }))
    }
}

struct BucketCaller {
    router: Arc<Router>,
    bucket: BucketName,
}

impl BucketCaller {
    async fn ask(&self, call: Call) -> Result<Reply> {
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        self.router.handle(request).await
    }

    async fn answer(&self, call: AvailableCall) -> Result<Reply> {
        match call {
            AvailableCall::Fetch { key, .. } => self.fetch(key).await,
            AvailableCall::Store(store) => self.store(*store).await,
            AvailableCall::Remove { key, context, .. } => self.remove(key, context).await,
            AvailableCall::Keys { after, rows_max } => {
                let mut range = Range::prefix(Bytes::new());
                range = after.map_or(range.clone(), |after| range.after(after));
                (range.want, range.rows_max) = (Want::Keys, Some(rows_max));
                let Reply { index, body, .. } = self.ask(read(Read::Range(range))).await?;
                let Body::Page(page) = body else { return Err(strange()) };
                let keys = page.entries.into_iter().map(|entry| entry.key).collect();
                Ok(Reply::new(index, Body::Keys(Keys { keys, more: page.more })))
            }
            AvailableCall::Buckets { .. }
            | AvailableCall::Change(_)
            | AvailableCall::FetchType { .. }
            | AvailableCall::Owners { .. } => {
                let text = "this is no available bucket: it has values alone, and lives in a group";
                Err(Error::new(Reason::NotSupported, text))
            }
        }
    }

    async fn fetch(&self, key: Key) -> Result<Reply> {
        let Reply { index, body, .. } = self.ask(read(Read::Get(key))).await?;
        let Body::Row(row) = body else { return Err(strange()) };
        Ok(Reply::new(index, Body::Siblings(row.map(siblings).unwrap_or_default())))
    }

    async fn store(&self, store: Store) -> Result<Reply> {
        let Store { key, content, context, options, condition } = store;
        let Content { value, headers } = content;
        if !headers.meta.is_empty() || !headers.links.is_empty() || !headers.indexes.is_empty() {
            let text = "this is no available bucket: it keeps values alone, without metadata, \
                        links and indexes";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let when = match (condition, context) {
            (Some(Condition::Absent), _) => When::Absent,
            (Some(Condition::Unchanged(seen)), _) | (None, Some(seen)) => {
                When::Unchanged(version(&seen)?)
            }
            (None, None) => When::Always,
        };
        let expiry = Expiry::Default;
        let set = Update::SetIf { key: key.clone(), value, expiry, when };
        let update = match options.return_body {
            false => set,
            // One update: were the read a request of its own and failed, its error would be the
            // answer to a write that is done; and it could find what another wrote since.
            true => Update::Sequence {
                steps: vec![set, Update::Read(Read::Get(key))],
                mode: Steps::AllOrNothing,
            },
        };
        let Reply { index, body, .. } = self.ask(Call::Update(update)).await?;
        let Body::Updated(outcome) = body else { return Err(strange()) };
        stored(outcome, options.return_body).map(|body| Reply::new(index, body))
    }

    async fn remove(&self, key: Key, context: Option<Context>) -> Result<Reply> {
        let delete = Update::Delete { key: key.clone(), missing: Missing::Fails };
        let update = match context {
            None => delete,
            Some(seen) => Update::Sequence {
                steps: vec![Update::AssertVersion { key, version: Some(version(&seen)?) }, delete],
                mode: Steps::AllOrNothing,
            },
        };
        let Reply { index, .. } = self.ask(Call::Update(update)).await?;
        Ok(Reply::new(index, Body::Stored(Context::default())))
    }
}

/// Builds the answer to a write from the outcome of its update.
fn stored(outcome: Outcome, return_body: bool) -> Result<Body> {
    let mut steps = match outcome {
        Outcome::Steps(steps) => steps.into_iter().collect::<Result<Vec<_>>>()?,
        outcome => vec![outcome],
    };
    if matches!(steps[..], [Outcome::Swapped { written: false, .. }, ..]) {
        let text = "the key is not as the condition says: read it again";
        return Err(Error::new(Reason::Changed, text));
    }
    match steps.pop() {
        Some(Outcome::Read(body)) if return_body => match *body {
            Body::Row(Some(row)) => Ok(Body::Siblings(siblings(row))),
            _ => Err(strange()),
        },
        Some(_) if !return_body => Ok(Body::Stored(Context::default())),
        _ => Err(strange()),
    }
}

fn read(read: Read) -> Call {
    Call::Read(read, ReadLevel::Consistent)
}

fn siblings(row: Row) -> Siblings {
    let mut context = vec![VERSION];
    context.put_u64(row.version.0);
    let value = Sibling {
        content: Content::plain(row.value),
        written_ms: 0,
        vtag: Vtag(row.version.0.into()),
        tombstone: false,
    };
    Siblings { context: Context(context.into()), values: vec![value] }
}

fn version(context: &Context) -> Result<Version> {
    let parse = || {
        let mut from = Reader::new(&context.0);
        if from.u8("context")? != VERSION {
            return Err(Malformed("context"));
        }
        let version = from.u64("context")?;
        from.end("context").map(|()| Version(version))
    };
    let wrong = |Malformed(field)| {
        let text = format!("{field}: send a context as it was given for this very key");
        Error::new(Reason::Malformed, text)
    };
    parse().map_err(wrong)
}

fn strange() -> Error {
    Error::new(Reason::InDoubt, "an answer to another question: it may have happened")
}

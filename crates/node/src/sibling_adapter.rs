//! Adapter for clients that use siblings and contexts on a consistent bucket: one value or none,
//! and a context that is the row's version. So their conditional requests are atomic.
//!
//! A consistent bucket keeps a value and its tags: a media type that comes with them is forgotten,
//! other headers are refused.

use crate::flow::Flow;
use crate::route::Router;
use base::codec::{Malformed, Reader, Writer};
use base::request::{Expiry, OnMissing, SequenceMode, TaggedSet, When};
use base::{
    AvailableCall, Body, BucketName, Call, Condition, Content, Context, Error, Headers, Key, Keys,
    Outcome, Principal, Range, Read, ReadLevel, Reason, Reply, Request, Result, Row, RowContent,
    Sibling, Siblings, Store, Tags, Update, Version, Vtag,
};
use bytes::Bytes;
use runtime::submit::SubmitResult;
use std::sync::Arc;

/// First byte of a context that is a row version.
const VERSION: u8 = 0xC5;

impl Router {
    /// Answers a call for available buckets on a consistent bucket.
    pub(crate) fn submit_available_call(
        self: &Arc<Router>,
        flow: &Flow,
        name: &BucketName,
        call: &AvailableCall,
    ) -> SubmitResult {
        let principal = flow.principal().clone();
        let caller = BucketCaller { router: self.clone(), principal, bucket: name.clone() };
        let call = call.clone();
        SubmitResult::Later(Box::pin(async move { caller.answer(call).await }))
    }
}

struct BucketCaller {
    router: Arc<Router>,
    /// Principal whose rights its steps need: a store reads the row before.
    principal: Principal,
    bucket: BucketName,
}

impl BucketCaller {
    async fn execute(&self, call: Call) -> Result<Reply> {
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        self.router.handle(&self.principal, request).await
    }

    async fn answer(&self, call: AvailableCall) -> Result<Reply> {
        match call {
            AvailableCall::Fetch { key, .. } => self.fetch(key).await,
            AvailableCall::Store(store) => self.store(*store).await,
            AvailableCall::Remove { key, context, .. } => self.remove(key, context).await,
            AvailableCall::Keys { after, rows_max } => {
                let mut range = Range::prefix(Bytes::new());
                range = after.map_or(range.clone(), |after| range.after(after));
                (range.want, range.rows_max) = (RowContent::Keys, Some(rows_max));
                let Reply { index, body, .. } = self.execute(read(Read::Range(range))).await?;
                let Body::Page(page) = body else { return Err(unexpected_body()) };
                let keys = page.entries.into_iter().map(|entry| entry.key).collect();
                Ok(Reply::new(index, Body::Keys(Keys { keys, more: page.more })))
            }
            AvailableCall::Buckets { .. }
            | AvailableCall::Change(_)
            | AvailableCall::FetchType { .. }
            | AvailableCall::Owners { .. } => {
                let text = "this is a consistent bucket: data types and siblings need an available \
                            bucket";
                Err(Error::new(Reason::NotSupported, text))
            }
        }
    }

    async fn fetch(&self, key: Key) -> Result<Reply> {
        let Reply { index, body, .. } = self.execute(read(Read::Get(key))).await?;
        let Body::Row(row) = body else { return Err(unexpected_body()) };
        Ok(Reply::new(index, Body::Siblings(row.map(siblings).unwrap_or_default())))
    }

    async fn store(&self, store: Store) -> Result<Reply> {
        let Store { key, content, context, options, condition } = store;
        let Content { value, headers } = content;
        if !headers.meta.is_empty() || !headers.links.is_empty() {
            let text = "this is a consistent bucket: metadata and links need an available bucket";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let tags = Tags(headers.indexes);
        let when = match (condition, context) {
            (Some(Condition::Absent), _) => When::Absent,
            (Some(Condition::Unchanged(seen)), _) | (None, Some(seen)) => {
                When::Unchanged(version(&seen)?)
            }
            (None, None) => When::Always,
        };
        let expiry = Expiry::Default;
        let is_conditional = when != When::Always;
        let set = match tags.is_empty() {
            true => Update::SetIf { key: key.clone(), value, expiry, when },
            false => {
                let checked = self.router.locator.check_tags();
                checked.map_err(|error| self.router.unless_caught_up(error))?;
                let key = key.clone();
                Update::SetTagged(Box::new(TaggedSet { key, value, expiry, when, tags }))
            }
        };
        let update = match options.return_body {
            false => set,
            // A single update: a separate read could fail after the write succeeded, or return a
            // later write.
            true => Update::Sequence {
                steps: vec![set, Update::Read(Read::Get(key))],
                mode: SequenceMode::AllOrNothing,
            },
        };
        let Reply { index, body, .. } = self.execute(Call::Update(update)).await?;
        let Body::Updated(outcome) = body else { return Err(unexpected_body()) };
        let form = StoreForm { is_conditional, return_body: options.return_body };
        stored(outcome, form).map(|body| Reply::new(index, body))
    }

    async fn remove(&self, key: Key, context: Option<Context>) -> Result<Reply> {
        let delete = Update::Delete { key: key.clone(), missing: OnMissing::Fail };
        let update = match context {
            None => delete,
            Some(seen) => Update::Sequence {
                steps: vec![Update::AssertVersion { key, version: Some(version(&seen)?) }, delete],
                mode: SequenceMode::AllOrNothing,
            },
        };
        let Reply { index, .. } = self.execute(Call::Update(update)).await?;
        Ok(Reply::new(index, Body::Stored(Context::default())))
    }
}

/// Form of a write, as far as its answer depends on it.
#[derive(Clone, Copy)]
struct StoreForm {
    is_conditional: bool,
    return_body: bool,
}

/// Builds the answer to a write from the outcome of its update.
fn stored(outcome: Outcome, form: StoreForm) -> Result<Body> {
    let StoreForm { is_conditional, return_body } = form;
    let mut steps = match outcome {
        Outcome::Steps(steps) => steps.into_iter().collect::<Result<Vec<_>>>()?,
        // The master had no memory to send the outcome: the condition may have failed.
        Outcome::AppliedAt(_) if is_conditional => return Err(unknown_condition()),
        Outcome::AppliedAt(_) if return_body => return Err(unknown_body()),
        outcome => vec![outcome],
    };
    if matches!(steps[..], [Outcome::Swapped { written: false, .. } | Outcome::Applied(false), ..])
    {
        let text = "the condition does not hold for the key: read it again";
        return Err(Error::new(Reason::Changed, text));
    }
    match steps.pop() {
        Some(Outcome::Read(body)) if return_body => match *body {
            Body::Row(Some(row)) => Ok(Body::Siblings(siblings(row))),
            _ => Err(unexpected_body()),
        },
        Some(_) if !return_body => Ok(Body::Stored(Context::default())),
        _ => Err(unexpected_body()),
    }
}

fn read(read: Read) -> Call {
    Call::Read(read, ReadLevel::Consistent)
}

fn siblings(row: Row) -> Siblings {
    let mut context = vec![VERSION];
    context.put_u64(row.version.0);
    let indexes = row.tags.map(|tags| tags.0).unwrap_or_default();
    let headers = Headers { indexes, ..Headers::default() };
    let value = Sibling {
        content: Content { value: row.value, headers },
        written_ms: 0,
        vtag: Vtag(row.version.0.into()),
        tombstone: false,
    };
    Siblings { context: Context(context.into()), values: vec![value] }
}

fn version(context: &Context) -> Result<Version> {
    let parse = || {
        let mut reader = Reader::new(&context.0);
        if reader.u8("context")? != VERSION {
            return Err(Malformed("context"));
        }
        let version = reader.u64("context")?;
        reader.end("context").map(|()| Version(version))
    };
    let malformed = |Malformed(field)| {
        let text = format!("{field}: send a context unchanged, as it was returned for this key");
        Error::new(Reason::Malformed, text)
    };
    parse().map_err(malformed)
}

fn unknown_condition() -> Error {
    Error::new(
        Reason::InDoubt,
        "the write was evaluated, but its outcome could not be returned: it was done if its \
         condition held; read the key before you write again",
    )
}

fn unknown_body() -> Error {
    Error::new(
        Reason::InDoubt,
        "the write was applied, but there was no memory to return the value: read the key",
    )
}

fn unexpected_body() -> Error {
    Error::new(
        Reason::InDoubt,
        "the answer does not match the request: the request may have been applied",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Kind, LogIndex};

    /// The master had no memory for the old value, or for the body.
    #[test]
    fn write_whose_outcome_was_not_sent_is_stored_only_if_it_has_no_condition() {
        let lost = |is_conditional, return_body| {
            let outcome = Outcome::AppliedAt(LogIndex(7));
            stored(outcome, StoreForm { is_conditional, return_body }).map_err(|error| error.kind())
        };
        assert_eq!(lost(false, false), Ok(Body::Stored(Context::default())));
        for (is_conditional, return_body) in [(true, false), (true, true), (false, true)] {
            assert_eq!(lost(is_conditional, return_body), Err(Kind::Unknown));
        }
    }

    #[test]
    fn write_whose_condition_failed_is_refused_with_and_without_a_body() {
        let failed = Outcome::Swapped { written: false, old: Some(Bytes::from_static(b"old")) };
        let read = || Ok(Outcome::Read(Box::new(Body::Row(None))));
        let with_body = Outcome::Steps(vec![Ok(failed.clone()), read()]);
        let unmet = Outcome::Applied(false);
        let tagged = Outcome::Steps(vec![Ok(unmet.clone()), read()]);
        for (outcome, return_body) in
            [(failed, false), (with_body, true), (unmet, false), (tagged, true)]
        {
            let form = StoreForm { is_conditional: true, return_body };
            assert_eq!(stored(outcome, form).map_err(|error| error.reason), Err(Reason::Changed));
        }
    }
}

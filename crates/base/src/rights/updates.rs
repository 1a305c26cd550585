//! Needs of updates, those of every step of a sequence among them.

use super::need::{KeySet, Need, NeedVisitor};
use super::requests::read_needs;
use crate::access::Verb;
use crate::{BucketName, Result, Update};

/// Passes the needs of an update to `visit`. The depth of sequences is bounded where they are
/// decoded and checked.
pub(super) fn needs(
    bucket: &BucketName,
    update: &Update,
    visit: &mut NeedVisitor<'_>,
) -> Result<()> {
    let mut on = |verb: Verb, keys: KeySet<'_>| visit(Need::Keys(verb, bucket, keys));
    match update {
        Update::Set { key, value: _, expiry: _ }
        | Update::Delete { key, missing: _ }
        | Update::Confirm { key, value: _ }
        | Update::Append { key, value: _ }
        | Update::SetRange { key, offset: _, value: _ }
        | Update::Expire { key, expiry: _, when: _ } => on(Verb::Write, KeySet::One(key)),
        // These answer the previous value, or a sum that tells it.
        Update::SetIf { key, value: _, expiry: _, when: _ }
        | Update::TestAndSet { key, expected: _, wanted: _ }
        | Update::Replace { key, wanted: _ }
        | Update::Add { key, delta: _ }
        | Update::AddFloat { key, delta: _ } => {
            on(Verb::Write, KeySet::One(key))?;
            on(Verb::Read, KeySet::One(key))
        }
        // The condition tells of the row that was there.
        Update::SetTagged(set) => {
            on(Verb::Write, KeySet::One(&set.key))?;
            on(Verb::Read, KeySet::One(&set.key))
        }
        Update::Assert { key, expected: _ }
        | Update::AssertExists { key }
        | Update::AssertVersion { key, version: _ }
        | Update::AssertAbsentSince { key, absence: _ } => on(Verb::Read, KeySet::One(key)),
        Update::AssertRange { prefix, keys: _ } => on(Verb::List, KeySet::Prefix(prefix)),
        Update::DeletePrefix { prefix } => {
            on(Verb::Write, KeySet::Prefix(prefix))?;
            on(Verb::List, KeySet::Prefix(prefix))
        }
        // The value of one end becomes readable at the other.
        Update::Rename { from, to, when: _ } => {
            on(Verb::Read, KeySet::One(from))?;
            on(Verb::Write, KeySet::One(from))?;
            on(Verb::Write, KeySet::One(to))
        }
        Update::Copy { from, to, when: _ } => {
            on(Verb::Read, KeySet::One(from))?;
            on(Verb::Write, KeySet::One(to))
        }
        Update::Read(read) => read_needs(bucket, read, visit),
        // They pass through the log.
        Update::Nop => on(Verb::Write, KeySet::Part),
        Update::Sequence { steps, mode: _ } if steps.is_empty() => on(Verb::Write, KeySet::Part),
        Update::Sequence { steps, mode: _ } => {
            steps.iter().try_for_each(|step| needs(bucket, step, visit))
        }
    }
}

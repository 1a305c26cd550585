//! Buckets and bucket types: what each call changes, under assertions that make it safe.

use super::rows::{
    BUCKETS, NEXT_BUCKET, TYPES, assert, bad_row, bucket_key, mark_dropped, properties_of,
    read_bucket, set, type_key, write_bucket, write_properties,
};
use super::{CallPlan, Directory};
use base::bucket::no_such_bucket;
use base::codec::Reader;
use base::properties::Changes;
use base::request::OnMissing;
use base::{
    Body, BucketDescription, BucketId, BucketName, Consistency, DataType, DirectoryCall, Error,
    GroupId, MoveDestination, Properties, Range, Reason, Result, Update, Value, limits,
};
use bytes::Bytes;
use std::collections::BTreeSet;

impl Directory {
    pub(super) fn plan(&self, name: &BucketName, call: &DirectoryCall) -> Result<CallPlan> {
        if let Some(plan) = self.plan_available(name, call)? {
            return Ok(plan);
        }
        match call {
            DirectoryCall::CreateBucket(changes) => {
                self.create_bucket(name, changes, (GroupId::DEFAULT, None))
            }
            DirectoryCall::PlaceBucket { changes, place } => {
                let (group, has_group) = self.group_for_place(*place)?;
                self.create_bucket(name, changes, (group, Some(has_group)))
            }
            DirectoryCall::MoveBucket { group } => self.move_bucket(name, *group),
            DirectoryCall::CancelMove => self.cancel_move(name),
            DirectoryCall::StepMove { id, moving, step } => {
                self.step_move(name, *id, *moving, *step)
            }
            DirectoryCall::AlterBucket(changes) => {
                let (value, mut bucket) = self.bucket(name)?;
                let consistency = bucket.properties.consistency;
                bucket.properties = bucket.properties.with(changes)?;
                check_same_consistency(consistency, &bucket.properties)?;
                let key = bucket_key(name);
                let changed = write_bucket(&bucket);
                Ok(CallPlan::Change(vec![assert(&key, Some(value)), set(key, changed)]))
            }
            DirectoryCall::DropBucket => self.drop_bucket(name),
            DirectoryCall::ClearBucket => self.clear_bucket(name),
            DirectoryCall::ResetBucket => {
                let text = "only the properties of an available bucket can be reset";
                Err(Error::new(Reason::NotSupported, text))
            }
            DirectoryCall::DescribeBucket => {
                let (_, bucket) = self.bucket(name)?;
                Ok(CallPlan::Answer(Body::Buckets(vec![bucket])))
            }
            DirectoryCall::ListBuckets { after, rows_max } => self.list_buckets(after, *rows_max),
            DirectoryCall::CreateType(changes) => {
                let key = type_key(name.kind());
                if self.template(name.kind()).is_ok() {
                    let text = format!("the bucket type `{}` exists", name.kind());
                    return Err(Error::new(Reason::AlreadyExists, text));
                }
                let properties = check_supported(Properties::default().with(changes)?)?;
                let template = set(key.clone(), write_properties(&properties));
                Ok(CallPlan::Change(vec![assert(&key, None), template]))
            }
            DirectoryCall::AlterType(changes) => {
                let key = type_key(name.kind());
                let (value, before) = self.template(name.kind())?;
                let after = check_supported(before.with(changes)?)?;
                check_values_unaffected(&before, &after)?;
                let template = set(key.clone(), write_properties(&after));
                Ok(CallPlan::Change(vec![assert(&key, value), template]))
            }
            DirectoryCall::DropType => self.drop_type(name.kind()),
            DirectoryCall::ListTypes => self.list_types(),
            DirectoryCall::Cluster(call) => self.plan_members(call),
            DirectoryCall::Access(call) => self.plan_access(call),
            DirectoryCall::Ring(call) => self.plan_ring(call, &BTreeSet::new()),
            DirectoryCall::Index(call) => self.plan_index(name, call),
        }
    }

    /// Plans a bucket in a group, with the step that asserts that the group exists.
    fn create_bucket(
        &self,
        name: &BucketName,
        changes: &Changes,
        (group, has_group): (GroupId, Option<Update>),
    ) -> Result<CallPlan> {
        let key = bucket_key(name);
        if self.get(&key)?.is_some() {
            let text = format!("the bucket `{name}` exists");
            return Err(Error::new(Reason::AlreadyExists, text));
        }
        if !name.is_plain() {
            let text = "a consistent bucket's name is 1 to 63 of a-z 0-9 _ - and begins with a \
                        letter or digit";
            return Err(Error::new(Reason::Malformed, text));
        }
        if self.catalog.bucket_count() >= limits::BUCKETS_MAX {
            let text = format!("{} buckets exist (buckets_max): drop some", limits::BUCKETS_MAX);
            return Err(Error::new(Reason::TooMany, text));
        }
        let (template, properties) = self.template(name.kind())?;
        let properties = check_supported(properties.with(changes)?)?;
        if properties.consistency == Consistency::Available {
            let text = "a bucket has the consistency of its type: create a type with `consistency` \
                        available, and use its buckets";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let (mut steps, id) = self.next_id()?;
        let bucket = BucketDescription { name: name.clone(), id, group, properties, moving: None };
        steps.extend(has_group);
        steps.push(assert(&type_key(name.kind()), template));
        steps.push(assert(&key, None));
        steps.push(set(key, write_bucket(&bucket)));
        Ok(CallPlan::Change(steps))
    }

    fn drop_bucket(&self, name: &BucketName) -> Result<CallPlan> {
        let (value, bucket) = self.bucket(name)?;
        let key = bucket_key(name);
        let drop = Update::Delete { key: key.clone(), missing: OnMissing::Fail };
        let mut steps = vec![assert(&key, Some(value)), drop];
        steps.extend(self.drop_indexes(name)?);
        steps.extend(mark_all_dropped(&bucket));
        Ok(CallPlan::Change(steps))
    }

    fn drop_type(&self, kind: &str) -> Result<CallPlan> {
        let (value, properties) = self.template(kind)?;
        let prefix = Bytes::from(format!("b/{kind}/"));
        if kind == BucketName::DEFAULT || properties.consistency == Consistency::Available {
            let text = format!(
                "the type `{kind}` can't be dropped: it is built in, or its buckets are available \
                 and exist implicitly"
            );
            return Err(Error::new(Reason::NotSupported, text));
        }
        if !self.page(&Range::prefix(prefix.clone()))?.entries.is_empty() {
            let text = format!("the type `{kind}` has buckets: drop them first");
            return Err(Error::new(Reason::Changed, text));
        }
        let key = type_key(kind);
        let assert_empty = Update::AssertRange { prefix, keys: Vec::new() };
        let drop = Update::Delete { key: key.clone(), missing: OnMissing::Fail };
        Ok(CallPlan::Change(vec![assert(&key, value), assert_empty, drop]))
    }

    fn list_buckets(&self, after: &Option<BucketName>, rows_max: usize) -> Result<CallPlan> {
        let mut range = Range::prefix(Bytes::from_static(BUCKETS));
        if let Some(after) = after {
            range = range.after(bucket_key(after));
        }
        range.rows_max = Some(rows_max.min(limits::PAGE_ROWS_MAX));
        let page = self.page(&range)?;
        let bucket =
            |entry: &base::Entry| read_bucket(&entry.key, entry.row.as_ref().map(|row| &row.value));
        let buckets = page.entries.iter().map(bucket).collect::<Result<_>>()?;
        Ok(CallPlan::Answer(Body::Buckets(buckets)))
    }

    fn list_types(&self) -> Result<CallPlan> {
        let mut range = Range::prefix(Bytes::from_static(TYPES));
        range.rows_max = Some(limits::PAGE_ROWS_MAX);
        let page = self.page(&range)?;
        let kind = |entry: &base::Entry| {
            let value = entry.row.as_ref().map(|row| row.value.clone()).unwrap_or_default();
            let properties = properties_of(&value)?;
            Ok((String::from_utf8_lossy(&entry.key[2..]).into_owned(), properties))
        };
        let mut types: Vec<(String, Properties)> =
            page.entries.iter().map(kind).collect::<Result<_>>()?;
        let built_in = BucketName::AVAILABLE;
        if let Err(position) = types.binary_search_by(|(name, _)| name.as_str().cmp(built_in)) {
            types.insert(position, (built_in.into(), Properties::available()));
        }
        Ok(CallPlan::Answer(Body::Types(types)))
    }

    /// Clears a bucket. A moving bucket moves on; its rows at the target count as cleared, too.
    fn clear_bucket(&self, name: &BucketName) -> Result<CallPlan> {
        let (value, bucket) = self.bucket(name)?;
        let (mut steps, id) = self.next_ids(if bucket.moving.is_some() { 2 } else { 1 })?;
        let moving =
            bucket.moving.map(|moving| MoveDestination { id: BucketId(id.0 + 1), ..moving });
        let key = bucket_key(name);
        let cleared = BucketDescription { id, moving, ..bucket.clone() };
        steps.push(assert(&key, Some(value)));
        steps.push(set(key, write_bucket(&cleared)));
        steps.extend(self.clear_indexes(name)?);
        steps.extend(mark_all_dropped(&bucket));
        Ok(CallPlan::Change(steps))
    }

    pub(super) fn next_id(&self) -> Result<(Vec<Update>, BucketId)> {
        self.next_ids(1)
    }

    /// Allocates bucket ids. Returns the updates that do, and the first id.
    fn next_ids(&self, count: u32) -> Result<(Vec<Update>, BucketId)> {
        let key = Bytes::from_static(NEXT_BUCKET);
        let value = self.get(&key)?;
        let id = match &value {
            Some(bytes) => Reader::new(bytes).u32("next bucket").map_err(bad_row)?,
            None => 1,
        };
        let next = Bytes::copy_from_slice(&(id + count).to_le_bytes());
        Ok((vec![assert(&key, value), set(key, next)], BucketId(id)))
    }

    pub(super) fn bucket(&self, name: &BucketName) -> Result<(Value, BucketDescription)> {
        let key = bucket_key(name);
        let value = self.get(&key)?.ok_or_else(|| no_such_bucket(name))?;
        let bucket = read_bucket(&key, Some(&value))?;
        Ok((value, bucket))
    }

    /// Returns a type's template, and its row. The type `available` exists in every cluster, even
    /// in one founded before that type existed: it has a row only if it was altered.
    pub(super) fn template(&self, kind: &str) -> Result<(Option<Value>, Properties)> {
        match self.get(&type_key(kind))? {
            Some(value) => {
                let properties = properties_of(&value)?;
                Ok((Some(value), properties))
            }
            None if kind == BucketName::AVAILABLE => Ok((None, Properties::available())),
            None => {
                let text = format!("no bucket type `{kind}`: create it first");
                Err(Error::new(Reason::NoSuchType, text))
            }
        }
    }
}

/// Marks the rows of a bucket as dropped, in its group and in the group to which it moves.
fn mark_all_dropped(bucket: &BucketDescription) -> impl Iterator<Item = Update> {
    let target = bucket.moving.map(|moving| mark_dropped(moving.id, moving.group));
    std::iter::once(mark_dropped(bucket.id, bucket.group)).chain(target)
}

/// Checks that a bucket can have these properties. Refuses unsupported ones instead of ignoring
/// them.
pub(super) fn check_supported(properties: Properties) -> Result<Properties> {
    if properties.consistency == Consistency::Consistent {
        return Ok(properties);
    }
    if properties.ttl_ms != 0 && properties.replication.datatype != DataType::None {
        let refused = "data types do not support a time to live: omit `ttl_ms`, or store plain \
                       values in a bucket of another type";
        return Err(Error::new(Reason::NotSupported, refused));
    }
    Ok(properties)
}

pub(super) fn check_same_consistency(before: Consistency, after: &Properties) -> Result<()> {
    if before == after.consistency {
        return Ok(());
    }
    let text = "a bucket's consistency is fixed when it is created: create another bucket";
    Err(Error::new(Reason::NotSupported, text))
}

/// Checks that a change of properties does not reinterpret the values that are stored already.
pub(super) fn check_values_unaffected(before: &Properties, after: &Properties) -> Result<()> {
    check_same_consistency(before.consistency, after)?;
    let (before, after) = (&before.replication, &after.replication);
    let text = if before.datatype != after.datatype {
        "a bucket type's datatype is fixed when it is created: create another type"
    } else if after.hll_precision > before.hll_precision {
        "hll_precision can only be lowered: existing sketches have no higher precision"
    } else if before.write_once != after.write_once {
        "write_once is fixed when a bucket type is created: create another type, and use its \
         buckets"
    } else {
        return Ok(());
    };
    Err(Error::new(Reason::NotSupported, text))
}

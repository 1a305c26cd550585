//! Changes of declared indexes: what each call changes, under assertions that make it safe.

use super::lifecycle::{RowEffect, is_covered_by};
use super::rows::{
    DirectoryIndex, DirectoryState, NEXT_INDEX, bucket_prefix, index_key, read_index, read_next,
    write_index, write_next,
};
use crate::rows::{assert, bucket_key, set};
use crate::{CallPlan, Directory};
use base::index::{
    IndexCall, IndexDescription, IndexReport, IndexSpec, ReportPlace, no_such_index,
};
use base::limits::INDEXES_PER_BUCKET_MAX;
use base::request::OnMissing;
use base::{
    Body, BucketDescription, BucketId, BucketName, Consistency, DataType, Error, Key, Properties,
    Range, Reason, Result, Update, Value,
};
use bytes::Bytes;
use indexes::{IndexDefinition, IndexName, IndexNumber, JsonPath, ValueFormat, ValueType};

/// Declared indexes of a bucket as read for a change, in the order of their names.
struct IndexRows {
    prefix: Key,
    rows: Vec<(Key, Value, DirectoryIndex)>,
}

/// Bucket of a call about indexes.
enum IndexedBucket {
    /// A consistent bucket, and its row.
    Consistent(Value, BucketDescription),
    /// An available bucket, which has no row of its own, or need not have.
    Available(Properties),
}

impl IndexedBucket {
    fn properties(&self) -> &Properties {
        match self {
            IndexedBucket::Consistent(_, bucket) => &bucket.properties,
            IndexedBucket::Available(properties) => properties,
        }
    }
}

impl IndexRows {
    fn find(&self, name: &str) -> Option<&(Key, Value, DirectoryIndex)> {
        self.rows.iter().find(|(_, _, index)| index.definition.name.as_str() == name)
    }

    /// Returns the steps that carry an effect out on each row, if no index was created, dropped or
    /// changed meanwhile. Without indexes it is the assertion that there are none.
    fn steps(&self, effect: impl Fn(&DirectoryIndex) -> RowEffect) -> Vec<Update> {
        let keys = self.rows.iter().map(|(key, ..)| key.clone()).collect();
        let mut steps = vec![Update::AssertRange { prefix: self.prefix.clone(), keys }];
        for (key, value, index) in &self.rows {
            steps.push(assert(key, Some(value.clone())));
            match effect(index) {
                RowEffect::Keep => {}
                RowEffect::Put(after) => steps.push(set(key.clone(), write_index(&after))),
                RowEffect::Delete => steps.push(delete(key)),
            }
        }
        steps
    }
}

impl Directory {
    /// Plans a call about the indexes of a bucket.
    pub(crate) fn plan_index(&self, bucket: &BucketName, call: &IndexCall) -> Result<CallPlan> {
        match call {
            IndexCall::Create(spec) => self.create_index(bucket, spec),
            IndexCall::Drop { name } => self.drop_index(bucket, name),
            IndexCall::Describe { name } => {
                self.indexed_bucket(bucket)?;
                let rows = self.index_rows(bucket)?;
                let (.., index) = rows.find(name).ok_or_else(|| no_such_index(bucket, name))?;
                Ok(CallPlan::Answer(Body::Indexes(vec![index.describe()])))
            }
            IndexCall::List => {
                self.indexed_bucket(bucket)?;
                let rows = self.index_rows(bucket)?.rows;
                let all = rows.iter().map(|(.., index)| index.describe()).collect();
                Ok(CallPlan::Answer(Body::Indexes(all)))
            }
            IndexCall::Report(report) => self.report_index(bucket, report),
        }
    }

    /// Returns the steps that remove the indexes of a bucket that is dropped.
    pub(crate) fn drop_indexes(&self, bucket: &BucketName) -> Result<Vec<Update>> {
        self.index_rows(bucket).map(|rows| rows.steps(|_| RowEffect::Delete))
    }

    /// Returns the steps that begin the indexes of a bucket that is cleared anew.
    pub(crate) fn clear_indexes(&self, bucket: &BucketName) -> Result<Vec<Update>> {
        self.index_rows(bucket).map(|rows| rows.steps(DirectoryIndex::on_clear))
    }

    /// Returns the steps for the indexes of a bucket whose move ends, by its number in its new
    /// group.
    pub(crate) fn move_indexes(
        &self,
        bucket: &BucketName,
        target: BucketId,
    ) -> Result<Vec<Update>> {
        self.index_rows(bucket).map(|rows| rows.steps(|index| index.on_moved(target)))
    }

    fn create_index(&self, bucket: &BucketName, spec: &IndexSpec) -> Result<CallPlan> {
        let found = self.indexed_bucket(bucket)?;
        check_values(bucket, found.properties())?;
        let rows = self.index_rows(bucket)?;
        let next_key = Bytes::from_static(NEXT_INDEX);
        let next_value = self.get(&next_key)?;
        let number = read_next(next_value.as_ref())?;
        let definition = parse(spec, IndexNumber(number))?;
        definition.check(found.properties().consistency)?;
        if let Some((.., known)) = rows.find(&spec.name) {
            return create_again(bucket, known, definition);
        }
        if rows.rows.len() >= INDEXES_PER_BUCKET_MAX {
            let text = format!(
                "`{bucket}` has {INDEXES_PER_BUCKET_MAX} indexes (indexes_per_bucket_max): drop one"
            );
            return Err(Error::new(Reason::TooLarge, text));
        }
        let next = number.checked_add(1).ok_or_else(|| {
            let text = "all numbers of indexes are used up: no further index can be created";
            Error::new(Reason::TooMany, text)
        })?;
        let key = index_key(bucket, &spec.name);
        let index =
            DirectoryIndex { definition, state: DirectoryState::begin(), complete_at: None };
        // Every create changes the next number, so no two of them count the same indexes.
        let mut steps = vec![assert(&next_key, next_value), set(next_key, write_next(next))];
        if let IndexedBucket::Consistent(value, _) = found {
            // It was not dropped meanwhile.
            steps.push(assert(&bucket_key(bucket), Some(value)));
        }
        steps.push(assert(&key, None));
        steps.push(set(key, write_index(&index)));
        Ok(CallPlan::ChangeWithAnswer(steps, Body::Indexes(vec![index.describe()])))
    }

    /// Plans to drop an index. In a consistent bucket its row stays until the group's master has
    /// removed the entries. In an available bucket it goes at once: nodes remove the entries of all
    /// numbers that the directory does not list, so one that is away holds up nobody.
    fn drop_index(&self, bucket: &BucketName, name: &str) -> Result<CallPlan> {
        let found = self.indexed_bucket(bucket)?;
        let rows = self.index_rows(bucket)?;
        let (key, value, index) = rows.find(name).ok_or_else(|| no_such_index(bucket, name))?;
        let step = match found {
            IndexedBucket::Available(_) => delete(key),
            IndexedBucket::Consistent(..) => {
                let state = DirectoryState::Dropping;
                let after = DirectoryIndex { state, ..index.clone() };
                if after == *index {
                    return Ok(CallPlan::Answer(Body::Done));
                }
                set(key.clone(), write_index(&after))
            }
        };
        Ok(CallPlan::Change(vec![assert(key, Some(value.clone())), step]))
    }

    /// Plans what a report changes. A report about what is gone, or about another place than the
    /// bucket has now, is late: it changes nothing.
    fn report_index(&self, bucket: &BucketName, report: &IndexReport) -> Result<CallPlan> {
        let done = Ok(CallPlan::Answer(Body::Done));
        let found = match self.indexed_bucket(bucket) {
            Err(error) if error.reason == Reason::NoSuchBucket => return done,
            found => found?,
        };
        let rows = self.index_rows(bucket)?;
        let has_number = |(.., index): &&(Key, Value, DirectoryIndex)| {
            index.definition.number.0 == report.number
        };
        let Some((key, value, index)) = rows.rows.iter().find(has_number) else { return done };
        let effect = match (&found, report.place) {
            (IndexedBucket::Consistent(_, bucket), ReportPlace::Bucket(id)) => {
                let is_target = bucket.moving.is_some_and(|moving| moving.id == id);
                match id == bucket.id {
                    true => index.on_group_report(&report.state),
                    false if is_target => index.on_target_report(id, &report.state),
                    false => RowEffect::Keep,
                }
            }
            (IndexedBucket::Available(properties), ReportPlace::Node(node)) => {
                let (cluster, ring) = (self.describe_cluster()?, self.present_ring()?);
                let n_val = properties.replication.n_val.into();
                index.on_node_report(node, &report.state, &cluster, |nodes| {
                    ring.is_some_and(|ring| is_covered_by(&ring, n_val, nodes))
                })
            }
            _ => RowEffect::Keep,
        };
        let step = match effect {
            RowEffect::Keep => return done,
            RowEffect::Put(after) => set(key.clone(), write_index(&after)),
            RowEffect::Delete => delete(key),
        };
        let mut steps = vec![assert(key, Some(value.clone()))];
        if let IndexedBucket::Consistent(value, _) = found {
            // Its place is still that of the report.
            steps.push(assert(&bucket_key(bucket), Some(value)));
        }
        steps.push(step);
        Ok(CallPlan::Change(steps))
    }

    /// Returns the bucket of a call. Errors: `no_such_bucket`.
    fn indexed_bucket(&self, name: &BucketName) -> Result<IndexedBucket> {
        let template = self.template(name.kind()).ok().map(|(_, properties)| properties);
        match template.filter(|properties| properties.consistency == Consistency::Available) {
            Some(template) => {
                let (_, properties) = self.custom_properties(name, template)?;
                Ok(IndexedBucket::Available(properties))
            }
            None => {
                let (value, bucket) = self.bucket(name)?;
                Ok(IndexedBucket::Consistent(value, bucket))
            }
        }
    }

    fn index_rows(&self, bucket: &BucketName) -> Result<IndexRows> {
        let prefix = bucket_prefix(bucket);
        let page = self.page(&Range::prefix(prefix.clone()))?;
        let row = |entry: base::Entry| {
            let value = entry.row.map(|row| row.value).unwrap_or_default();
            let index = read_index(&entry.key, &value)?;
            Ok((entry.key, value, index))
        };
        let rows = page.entries.into_iter().map(row).collect::<Result<_>>()?;
        Ok(IndexRows { prefix, rows })
    }
}

/// Answers a create of a name that is taken. Only the same definition is the same index.
fn create_again(
    bucket: &BucketName,
    known: &DirectoryIndex,
    wanted: IndexDefinition,
) -> Result<CallPlan> {
    let IndexDescription { spec, .. } = known.describe();
    if known.state == DirectoryState::Dropping {
        let text = format!(
            "the index `{}` of `{bucket}` is still being dropped: wait until it is not listed any \
             more, or choose another name",
            spec.name
        );
        return Err(Error::new(Reason::Changed, text));
    }
    if (IndexDefinition { number: known.definition.number, ..wanted }) == known.definition {
        return Ok(CallPlan::Answer(Body::Indexes(vec![known.describe()])));
    }
    let text = format!(
        "`{bucket}` has an index `{}` with another definition (path {}, type {}, format {}, unique \
         {}, strict {}): choose another name, or drop it first",
        spec.name, spec.path, spec.value_type, spec.format, spec.is_unique, spec.is_strict
    );
    Err(Error::new(Reason::AlreadyExists, text))
}

/// Parses a definition. Errors: `malformed`, `not_supported`, `too_large`.
fn parse(spec: &IndexSpec, number: IndexNumber) -> Result<IndexDefinition> {
    let IndexSpec { name, path, value_type, format, is_unique, is_strict } = spec;
    Ok(IndexDefinition {
        number,
        name: IndexName::parse(name)?,
        path: JsonPath::parse(path)?,
        value_type: ValueType::parse(value_type)?,
        format: ValueFormat::parse(format)?,
        is_unique: *is_unique,
        is_strict: *is_strict,
    })
}

/// Refuses buckets whose values are no documents.
fn check_values(bucket: &BucketName, properties: &Properties) -> Result<()> {
    match properties.replication.datatype {
        DataType::None => Ok(()),
        kind => {
            let text = format!(
                "`{bucket}` holds data types ({}), which have no indexes: store documents in a \
                 bucket of another type",
                kind.name()
            );
            Err(Error::new(Reason::NotSupported, text))
        }
    }
}

fn delete(key: &Key) -> Update {
    Update::Delete { key: key.clone(), missing: OnMissing::Fail }
}

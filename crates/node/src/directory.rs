//! Buckets and bucket types: ordinary rows of group 0, changed by sequences whose assertions make
//! them safe.
//!
//! ```text
//! t/<type>          -> properties            the template of a type
//! b/<type>/<name>   -> id, group, properties
//! n/bucket          -> the next bucket's number
//! d/<number>        -> group                 dropped, its space not yet given back
//! ```
//! A drop or a clear only changes these rows; `housekeeping.rs` gives the space back.

use crate::catalog::{Bucket, Catalog};
use crate::consistent::group::Group;
use crate::consistent::read;
use crate::recovery::DEFAULT_GROUP;
use base::bucket::Changes;
use base::codec::{Malformed, Reader, Writer};
use base::request::{Expiry, Missing, Steps};
use base::{
    Body, BucketDescription, BucketId, BucketName, DirectoryCall, Entry, Error, GroupId, Key, Page,
    Promise, Properties, Range, Read, Reason, Reply, Result, Update, Value, limits,
};
use bytes::Bytes;
use std::sync::Arc;

const NEXT_BUCKET: &[u8] = b"n/bucket";
/// Attempts when others change the directory at the same time.
const ATTEMPTS_MAX: usize = 16;

/// The directory's way to group 0.
pub(crate) struct Directory {
    pub group: Arc<Group>,
    pub catalog: Arc<Catalog>,
    rows: Bucket,
    /// One change at a time from this node: fewer attempts, and the catalog changes in the log's
    /// order.
    turn: tokio::sync::Mutex<()>,
}

impl Directory {
    pub(crate) fn new(group: Arc<Group>, catalog: Arc<Catalog>) -> Directory {
        let rows = Bucket::new(BucketId(0), group.id, Properties::default());
        Directory { group, catalog, rows, turn: tokio::sync::Mutex::new(()) }
    }

    /// Makes the default type and bucket where they are not there yet, and fills the catalog.
    pub(crate) async fn open(&self) -> Result<()> {
        let default = BucketName::default();
        if self.get(&type_key(default.kind()))?.is_none() {
            let call = DirectoryCall::CreateType(Vec::new());
            self.execute(&default, call).await?;
            self.execute(&default, DirectoryCall::CreateBucket(Vec::new())).await?;
        }
        self.load()
    }

    /// Fills the catalog with what is applied here.
    pub(crate) fn load(&self) -> Result<()> {
        let mut range = Range::prefix(Bytes::from_static(b"b/"));
        loop {
            let page = self.page(&range)?;
            for entry in &page.entries {
                let bucket = describe(&entry.key, entry.row.as_ref().map(|row| &row.value))?;
                self.catalog.replace(&bucket.name.clone(), Some(bucket));
            }
            match page.entries.last() {
                Some(last) if page.more => range = range.after(last.key.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Carries out a directory call.
    pub(crate) async fn execute(&self, name: &BucketName, call: DirectoryCall) -> Result<Reply> {
        let _turn = self.turn.lock().await;
        for _ in 0..ATTEMPTS_MAX {
            let steps = match self.plan(name, &call)? {
                Plan::Answer(body) => {
                    return Ok(Reply { index: self.group.applied.index(), body });
                }
                Plan::Change(steps) => steps,
            };
            let sequence = Update::Sequence { steps, mode: Steps::AllOrNothing };
            let (ticket, index, outcome) = self.group.submit(&self.rows, &sequence, None)?;
            if let Some(ticket) = ticket {
                self.group.settled(ticket).await?;
            }
            match outcome {
                Ok(_) => {
                    self.refresh(name)?;
                    return Ok(Reply { index, body: Body::Done });
                }
                Err(error) if error.reason == Reason::AssertionFailed => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(Reason::Changed, "the directory keeps changing: repeat"))
    }

    /// The catalog follows what is decided about this bucket.
    fn refresh(&self, name: &BucketName) -> Result<()> {
        let key = bucket_key(name);
        let bucket = self.get(&key)?.map(|value| describe(&key, Some(&value))).transpose()?;
        let known = self.catalog.find(name);
        let same = match (&known, &bucket) {
            (Some(known), Some(found)) => {
                known.id == found.id && known.properties == found.properties
            }
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.catalog.replace(name, bucket);
        }
        Ok(())
    }

    fn plan(&self, name: &BucketName, call: &DirectoryCall) -> Result<Plan> {
        match call {
            DirectoryCall::CreateBucket(changes) => self.create_bucket(name, changes),
            DirectoryCall::AlterBucket(changes) => {
                let (value, mut bucket) = self.bucket(name)?;
                let promise = bucket.properties.promise;
                bucket.properties = bucket.properties.with(changes)?;
                fixed_promise(promise, &bucket.properties)?;
                let key = bucket_key(name);
                let changed = write_bucket(&bucket);
                Ok(Plan::Change(vec![assert(&key, Some(value)), set(key, changed)]))
            }
            DirectoryCall::DropBucket => {
                let (value, bucket) = self.bucket(name)?;
                let key = bucket_key(name);
                let drop = Update::Delete { key: key.clone(), missing: Missing::Fails };
                Ok(Plan::Change(vec![assert(&key, Some(value)), drop, dropped(&bucket)]))
            }
            DirectoryCall::ClearBucket => {
                let (value, bucket) = self.bucket(name)?;
                let (mut steps, id) = self.next_id()?;
                let key = bucket_key(name);
                let cleared = BucketDescription { id, ..bucket.clone() };
                steps.push(assert(&key, Some(value)));
                steps.push(set(key, write_bucket(&cleared)));
                steps.push(dropped(&bucket));
                Ok(Plan::Change(steps))
            }
            DirectoryCall::DescribeBucket => {
                let (_, bucket) = self.bucket(name)?;
                Ok(Plan::Answer(Body::Buckets(vec![bucket])))
            }
            DirectoryCall::ListBuckets { after, rows_max } => self.list_buckets(after, *rows_max),
            DirectoryCall::CreateType(changes) => {
                let key = type_key(name.kind());
                if self.get(&key)?.is_some() {
                    let text = format!("the bucket type `{}` exists", name.kind());
                    return Err(Error::new(Reason::AlreadyExists, text));
                }
                let properties = supported(Properties::default().with(changes)?)?;
                let template = set(key.clone(), write_properties(&properties));
                Ok(Plan::Change(vec![assert(&key, None), template]))
            }
            DirectoryCall::AlterType(changes) => {
                let key = type_key(name.kind());
                let value = self.template(name.kind())?;
                let before = read_properties(&mut Reader::new(&value)).map_err(bad_row)?;
                let after = supported(before.with(changes)?)?;
                let template = set(key.clone(), write_properties(&after));
                Ok(Plan::Change(vec![assert(&key, Some(value)), template]))
            }
            DirectoryCall::DropType => self.drop_type(name.kind()),
            DirectoryCall::ListTypes => self.list_types(),
        }
    }

    fn create_bucket(&self, name: &BucketName, changes: &Changes) -> Result<Plan> {
        let key = bucket_key(name);
        if self.get(&key)?.is_some() {
            let text = format!("the bucket `{name}` exists");
            return Err(Error::new(Reason::AlreadyExists, text));
        }
        if self.catalog.len() >= limits::BUCKETS_MAX {
            let text = format!("{} buckets exist (buckets_max): drop some", limits::BUCKETS_MAX);
            return Err(Error::new(Reason::TooMany, text));
        }
        let template = self.template(name.kind())?;
        let properties = read_properties(&mut Reader::new(&template)).map_err(bad_row)?;
        let properties = supported(properties.with(changes)?)?;
        let (mut steps, id) = self.next_id()?;
        let group = DEFAULT_GROUP;
        let bucket = BucketDescription { name: name.clone(), id, group, properties };
        steps.push(assert(&type_key(name.kind()), Some(template)));
        steps.push(assert(&key, None));
        steps.push(set(key, write_bucket(&bucket)));
        Ok(Plan::Change(steps))
    }

    fn drop_type(&self, kind: &str) -> Result<Plan> {
        let value = self.template(kind)?;
        let prefix = Bytes::from(format!("b/{kind}/"));
        if kind == BucketName::DEFAULT {
            return Err(Error::new(Reason::NotSupported, "the type `default` can't be dropped"));
        }
        if !self.page(&Range::prefix(prefix.clone()))?.entries.is_empty() {
            let text = format!("the type `{kind}` has buckets: drop them first");
            return Err(Error::new(Reason::Changed, text));
        }
        let key = type_key(kind);
        let none = Update::AssertRange { prefix, keys: Vec::new() };
        let drop = Update::Delete { key: key.clone(), missing: Missing::Fails };
        Ok(Plan::Change(vec![assert(&key, Some(value)), none, drop]))
    }

    fn list_buckets(&self, after: &Option<BucketName>, rows_max: usize) -> Result<Plan> {
        let mut range = Range::prefix(Bytes::from_static(b"b/"));
        if let Some(after) = after {
            range = range.after(bucket_key(after));
        }
        range.rows_max = Some(rows_max.min(limits::PAGE_ROWS_MAX));
        let page = self.page(&range)?;
        let bucket = |entry: &Entry| describe(&entry.key, entry.row.as_ref().map(|row| &row.value));
        let buckets = page.entries.iter().map(bucket).collect::<Result<_>>()?;
        Ok(Plan::Answer(Body::Buckets(buckets)))
    }

    fn list_types(&self) -> Result<Plan> {
        let mut range = Range::prefix(Bytes::from_static(b"t/"));
        range.rows_max = Some(limits::PAGE_ROWS_MAX);
        let page = self.page(&range)?;
        let kind = |entry: &Entry| {
            let value = entry.row.as_ref().map(|row| row.value.clone()).unwrap_or_default();
            let properties = read_properties(&mut Reader::new(&value)).map_err(bad_row)?;
            Ok((String::from_utf8_lossy(&entry.key[2..]).into_owned(), properties))
        };
        let types = page.entries.iter().map(kind).collect::<Result<_>>()?;
        Ok(Plan::Answer(Body::Types(types)))
    }

    /// Dropped buckets whose space is still to be given back.
    pub(crate) fn dropped(&self) -> Result<Vec<(BucketId, GroupId)>> {
        let page = self.page(&Range::prefix(Bytes::from_static(b"d/")))?;
        let bucket = |entry: &Entry| {
            let id = u32::from_be_bytes(entry.key.get(2..6)?.try_into().ok()?);
            let group = Reader::new(&entry.row.as_ref()?.value).u32("group").ok()?;
            Some((BucketId(id), GroupId(group)))
        };
        Ok(page.entries.iter().filter_map(bucket).collect())
    }

    /// A dropped bucket's space is back.
    pub(crate) fn forget_dropped(&self, bucket: BucketId) -> Result<()> {
        let forget = Update::Delete { key: dropped_key(bucket), missing: Missing::Skipped };
        self.group.submit(&self.rows, &forget, None).map(|_| ())
    }

    fn next_id(&self) -> Result<(Vec<Update>, BucketId)> {
        let key = Bytes::from_static(NEXT_BUCKET);
        let value = self.get(&key)?;
        let id = match &value {
            Some(bytes) => Reader::new(bytes).u32("next bucket").map_err(bad_row)?,
            None => 1,
        };
        let next = set(key.clone(), Bytes::copy_from_slice(&(id + 1).to_le_bytes()));
        Ok((vec![assert(&key, value), next], BucketId(id)))
    }

    fn bucket(&self, name: &BucketName) -> Result<(Value, BucketDescription)> {
        let key = bucket_key(name);
        let value = self.get(&key)?.ok_or_else(|| no_such_bucket(name))?;
        let bucket = describe(&key, Some(&value))?;
        Ok((value, bucket))
    }

    fn template(&self, kind: &str) -> Result<Value> {
        self.get(&type_key(kind))?.ok_or_else(|| {
            let text = format!("no bucket type `{kind}`: create it first");
            Error::new(Reason::NoSuchType, text)
        })
    }

    fn get(&self, key: &Key) -> Result<Option<Value>> {
        match read::read(&self.group, &self.rows, &Read::Get(key.clone()))?.body {
            Body::Row(row) => Ok(row.map(|row| row.value)),
            _ => unreachable!("a get gives a row"),
        }
    }

    fn page(&self, range: &Range) -> Result<Page> {
        match read::read(&self.group, &self.rows, &Read::Range(range.clone()))?.body {
            Body::Page(page) => Ok(page),
            _ => unreachable!("a range gives a page"),
        }
    }
}

enum Plan {
    Answer(Body),
    Change(Vec<Update>),
}

/// What a request for an unknown bucket is told.
pub(crate) fn no_such_bucket(name: &BucketName) -> Error {
    let text = format!("no bucket `{name}`: create it first");
    Error::new(Reason::NoSuchBucket, text)
}

fn supported(properties: Properties) -> Result<Properties> {
    if properties.promise == Promise::Consistent {
        return Ok(properties);
    }
    let text = "this version serves consistent buckets only: leave out `promise`";
    Err(Error::new(Reason::NotSupported, text))
}

fn fixed_promise(before: Promise, after: &Properties) -> Result<()> {
    if before == after.promise {
        return Ok(());
    }
    let text = "a bucket's promise is fixed when it is made: create another bucket";
    Err(Error::new(Reason::NotSupported, text))
}

fn assert(key: &Key, expected: Option<Value>) -> Update {
    Update::Assert { key: key.clone(), expected }
}

fn set(key: Key, value: Value) -> Update {
    Update::Set { key, value, expiry: Expiry::Never }
}

fn dropped(bucket: &BucketDescription) -> Update {
    set(dropped_key(bucket.id), Bytes::copy_from_slice(&bucket.group.0.to_le_bytes()))
}

fn dropped_key(bucket: BucketId) -> Key {
    Bytes::from([b"d/".as_slice(), &bucket.0.to_be_bytes()].concat())
}

fn bucket_key(name: &BucketName) -> Key {
    Bytes::from(format!("b/{name}"))
}

fn type_key(kind: &str) -> Key {
    Bytes::from(format!("t/{kind}"))
}

fn write_properties(properties: &Properties) -> Value {
    let mut bytes = Vec::new();
    let texts = properties.texts();
    bytes.put_u32(texts.len() as u32);
    for (name, text) in texts {
        bytes.put_string(name.as_bytes());
        bytes.put_string(text.as_bytes());
    }
    Bytes::from(bytes)
}

/// Properties written by an older version lack the newer ones, which then have their defaults.
fn read_properties(reader: &mut Reader) -> std::result::Result<Properties, Malformed> {
    let count = reader.u32("properties")?;
    let mut changes = Changes::new();
    for _ in 0..count {
        let mut text = |field| {
            let bytes = reader.string(1024, field)?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        changes.push((text("property name")?, text("property")?));
    }
    Properties::default().with(&changes).map_err(|_| Malformed("properties"))
}

fn write_bucket(bucket: &BucketDescription) -> Value {
    let mut bytes = Vec::new();
    bytes.put_u32(bucket.id.0);
    bytes.put_u32(bucket.group.0);
    bytes.extend_from_slice(&write_properties(&bucket.properties));
    Bytes::from(bytes)
}

fn describe(key: &Key, value: Option<&Value>) -> Result<BucketDescription> {
    let read = || {
        let full = key.get(2..).and_then(|name| std::str::from_utf8(name).ok());
        let name = full.and_then(|full| BucketName::parse(full).ok());
        let mut reader = Reader::new(value.ok_or(Malformed("bucket"))?);
        Ok(BucketDescription {
            name: name.ok_or(Malformed("bucket name"))?,
            id: BucketId(reader.u32("bucket id")?),
            group: GroupId(reader.u32("bucket group")?),
            properties: read_properties(&mut reader)?,
        })
    };
    read().map_err(bad_row)
}

fn bad_row(error: Malformed) -> Error {
    let text = format!(
        "the directory's {} can't be read: it was written by a newer version, or \
                        is damaged (run `credenza check`)",
        error.0
    );
    Error::new(Reason::Damaged, text)
}

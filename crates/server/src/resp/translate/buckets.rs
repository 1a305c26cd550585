//! Credenza's commands on buckets: listing, selecting, creating, altering, dropping.

use super::{CommandContext, RespPlan, RespShape, Translated};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use base::properties::Changes;
use base::reply::BucketDescription;
use base::{BucketName, DirectoryCall};

/// Number of buckets in one answer by default, and (below) at most.
const BUCKETS_DEFAULT: u64 = 1_000;
const BUCKETS_MAX: u64 = 10_000;

fn name(words: &Words<'_>, at: usize) -> Result<BucketName, RespRefusal> {
    BucketName::parse(words.text(at)?).map_err(|error| RespRefusal::made(errors::text(&error)))
}

fn changes(words: &Words<'_>, from: usize) -> Result<Changes, RespRefusal> {
    if !(words.len() - from).is_multiple_of(2) {
        return Err(RespRefusal::new("ERR each property has a name and a value"));
    }
    let pair = |at| Ok((words.text(at)?.to_string(), words.text(at + 1)?.to_string()));
    (from..words.len()).step_by(2).map(pair).collect()
}

pub fn bucket(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.len() == 1 {
        talk.out.text(talk.client.bucket.full());
        return Ok(RespPlan::Said);
    }
    if words.len() > 2 {
        return Err(errors::arity("credenza.bucket"));
    }
    if !talk.client.watched.is_empty() {
        return Err(RespRefusal::new(
            "ERR watched keys belong to their bucket: UNWATCH comes first",
        ));
    }
    let name = name(words, 1)?;
    Ok(RespPlan::Directory(name.clone(), DirectoryCall::DescribeBucket, RespShape::Selected(name)))
}

/// Selects an existing bucket for the connection, and writes `OK`.
pub fn select(bucket: &BucketName, talk: &mut CommandContext<'_>) {
    talk.client.bucket = bucket.clone();
    let shown = if *bucket == BucketName::default() { "" } else { bucket.full() };
    talk.client.card.names().bucket = shown.into();
    talk.out.ok();
}

pub fn list(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let (mut after, mut rows_max) = (None, BUCKETS_DEFAULT);
    for at in (1..words.len()).step_by(2) {
        match words.upper(at).as_str() {
            "AFTER" if at + 1 < words.len() => after = Some(name(words, at + 1)?),
            "LIMIT" if at + 1 < words.len() => rows_max = words.natural(at + 1)?,
            _ => return Err(errors::SYNTAX),
        }
    }
    if !(1..=BUCKETS_MAX).contains(&rows_max) {
        return Err(RespRefusal::made(format!("ERR LIMIT is a number from 1 to {BUCKETS_MAX}")));
    }
    let call = DirectoryCall::ListBuckets { after, rows_max: rows_max as usize };
    Ok(RespPlan::Directory(talk.client.bucket.clone(), call, RespShape::Buckets))
}

pub fn create(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let call = DirectoryCall::CreateBucket(changes(words, 2)?);
    Ok(RespPlan::Directory(name(words, 1)?, call, RespShape::Ok))
}

pub fn alter(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let call = DirectoryCall::AlterBucket(changes(words, 2)?);
    Ok(RespPlan::Directory(name(words, 1)?, call, RespShape::Ok))
}

pub fn describe(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let bucket = if words.len() == 1 { talk.client.bucket.clone() } else { name(words, 1)? };
    Ok(RespPlan::Directory(bucket, DirectoryCall::DescribeBucket, RespShape::Buckets))
}

pub fn drop(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    Ok(RespPlan::Directory(name(words, 1)?, DirectoryCall::DropBucket, RespShape::Ok))
}

/// Writes buckets, each with its name and properties.
pub fn speak(buckets: &[BucketDescription], talk: &mut CommandContext<'_>) {
    talk.out.array(buckets.len());
    for bucket in buckets {
        talk.out.array(2);
        talk.out.text(bucket.name.full());
        let texts = bucket.properties.texts();
        talk.out.map(texts.len());
        for (name, text) in texts {
            talk.out.text(name);
            talk.out.text(text);
        }
    }
}

//! Credenza's commands on buckets: listing, selecting, creating, altering, dropping.

use super::{CommandContext, RespPlan, RespShape, TranslateResult};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use base::properties::Changes;
use base::reply::BucketDescription;
use base::{BucketName, DirectoryCall};

/// Number of buckets in one answer by default, and (below) at most.
const BUCKETS_DEFAULT: u64 = 1_000;
const BUCKETS_MAX: u64 = 10_000;

/// Parses the name of a bucket.
pub fn bucket_name(args: &Args<'_>, at: usize) -> Result<BucketName, RespRefusal> {
    BucketName::parse(args.text(at)?).map_err(|error| RespRefusal::from_text(errors::text(&error)))
}

fn parse_changes(args: &Args<'_>, from: usize) -> Result<Changes, RespRefusal> {
    if !(args.len() - from).is_multiple_of(2) {
        return Err(RespRefusal::new("ERR each property needs a name and a value"));
    }
    let pair = |at| Ok((args.text(at)?.to_string(), args.text(at + 1)?.to_string()));
    (from..args.len()).step_by(2).map(pair).collect()
}

pub fn bucket(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.len() == 1 {
        ctx.out.text(ctx.client.bucket.full());
        return Ok(RespPlan::Answered);
    }
    if args.len() > 2 {
        return Err(errors::arity("credenza.bucket"));
    }
    if !ctx.client.watched.is_empty() {
        return Err(RespRefusal::new(
            "ERR keys of the current bucket are watched: send UNWATCH first",
        ));
    }
    let name = bucket_name(args, 1)?;
    Ok(RespPlan::Directory(
        name.clone(),
        DirectoryCall::DescribeBucket,
        RespShape::BucketSelected(name),
    ))
}

/// Selects an existing bucket for the connection, and writes `OK`.
pub fn select(bucket: &BucketName, ctx: &mut CommandContext<'_>) {
    ctx.client.bucket = bucket.clone();
    let shown = if *bucket == BucketName::default() { "" } else { bucket.full() };
    ctx.client.info.names().bucket = shown.into();
    ctx.out.ok();
}

pub fn list(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (mut after, mut rows_max) = (None, BUCKETS_DEFAULT);
    for at in (1..args.len()).step_by(2) {
        match args.upper(at).as_str() {
            "AFTER" if at + 1 < args.len() => after = Some(bucket_name(args, at + 1)?),
            "LIMIT" if at + 1 < args.len() => rows_max = args.natural(at + 1)?,
            _ => return Err(errors::SYNTAX),
        }
    }
    if !(1..=BUCKETS_MAX).contains(&rows_max) {
        return Err(RespRefusal::from_text(format!(
            "ERR LIMIT must be a number from 1 to {BUCKETS_MAX}"
        )));
    }
    let call = DirectoryCall::ListBuckets { after, rows_max: rows_max as usize };
    Ok(RespPlan::Directory(ctx.client.bucket.clone(), call, RespShape::Buckets))
}

pub fn create(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let call = DirectoryCall::CreateBucket(parse_changes(args, 2)?);
    Ok(RespPlan::Directory(bucket_name(args, 1)?, call, RespShape::Ok))
}

pub fn alter(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let call = DirectoryCall::AlterBucket(parse_changes(args, 2)?);
    Ok(RespPlan::Directory(bucket_name(args, 1)?, call, RespShape::Ok))
}

pub fn describe(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let bucket = if args.len() == 1 { ctx.client.bucket.clone() } else { bucket_name(args, 1)? };
    Ok(RespPlan::Directory(bucket, DirectoryCall::DescribeBucket, RespShape::Buckets))
}

pub fn drop(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    Ok(RespPlan::Directory(bucket_name(args, 1)?, DirectoryCall::DropBucket, RespShape::Ok))
}

/// Writes buckets, each with its name and properties.
pub fn write_buckets(buckets: &[BucketDescription], ctx: &mut CommandContext<'_>) {
    ctx.out.array(buckets.len());
    for bucket in buckets {
        ctx.out.array(2);
        ctx.out.text(bucket.name.full());
        let texts = bucket.properties.texts();
        ctx.out.map(texts.len());
        for (name, text) in texts {
            ctx.out.text(name);
            ctx.out.text(text);
        }
    }
}

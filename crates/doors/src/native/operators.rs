//! What operators ask: status, metrics, health, the log's levels, checkpoints.

use super::json::cluster;
use super::translate::Operate;
use super::{admission, emptying, errors, moves, openapi};
use crate::counters::{Tongue, Verdict};
use crate::http::{Answer, Content, Status};
use crate::shared::Shared;
use base::{Error, Kind, Reason};
use bytes::Bytes;
use node::{Sample, SampleKind};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

const PLAIN: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers it.
pub async fn answer(shared: &Shared, what: Operate) -> Answer {
    match what {
        Operate::Checkpoint(target) => match checkpoint(shared, &target).await {
            Ok(path) => json_answer(&json!({ "target": path })),
            Err(error) => errors::answer(&error),
        },
        Operate::GetLogLevels => log_levels(shared),
        Operate::PutLogLevels(changes) => match set_log_levels(shared, &changes) {
            Ok(()) => log_levels(shared),
            Err(error) => errors::answer(&error),
        },
        Operate::EmptyPrefix(what) => emptying::answer(shared, what).await,
        Operate::SeeMove(bucket) => match shared.node.movement(&bucket).await {
            Ok(movement) => json_answer(&moves::seen(&bucket, &movement)),
            Err(error) => errors::answer(&error),
        },
        Operate::Cluster => json_answer(&cluster::seen(&shared.node.overview().await)),
        Operate::Transfer(group, to) => match shared.node.transfer(group, &to).await {
            Ok(()) => Answer::new(Status::NoContent, Content::None),
            Err(error) => errors::answer(&error),
        },
        Operate::Verify(group) => match shared.node.verify(group).await {
            Ok(pass) => json_answer(&json!({ "pass": pass })),
            Err(error) => errors::answer(&error),
        },
        Operate::DecidedValue(group, index, shown) => {
            match shared.node.decided_value(group, index, shown).await {
                Ok(value) => Answer::new(Status::Ok, Content::Value(value)),
                Err(error) => errors::answer(&error),
            }
        }
        Operate::MakeToken(lifetime_ms) => admission::make(shared, lifetime_ms).await,
        Operate::Status => json_answer(&status(shared)),
        Operate::Metrics => {
            let text = metrics(shared);
            Answer::new(Status::Ok, Content::Text(PROMETHEUS, text.into()))
        }
        Operate::Live => Answer::new(Status::Ok, Content::Text(PLAIN, "live\n".into())),
        Operate::Ready => match ready(shared) {
            Ok(()) => Answer::new(Status::Ok, Content::Text(PLAIN, "ready\n".into())),
            // Whatever it is, a health check shall look again.
            Err(error) => errors::with_status(Status::Unavailable, &error),
        },
        Operate::OpenApi => Answer::new(Status::Ok, Content::Json(document(shared))),
    }
}

fn ready(shared: &Shared) -> Result<(), Error> {
    if shared.is_closing() {
        return Err(Error::new(Reason::GoingDown, "the node is stopping"));
    }
    shared.node.readiness()
}

/// The description of this door; made once.
fn document(shared: &Shared) -> Bytes {
    let make = || {
        let levels = shared.settings.log_levels.as_ref().map(|levels| levels.levels());
        let sections: Vec<String> = levels.into_iter().flatten().map(|(name, _)| name).collect();
        openapi::document(&sections)
    };
    shared.document.get_or_init(make).clone()
}

/// How an operator's answer is counted.
pub fn verdict(answer: &Answer) -> Verdict {
    match answer.status.code() {
        ..400 => Verdict::Fine,
        503 => Verdict::Failed(Kind::Unavailable),
        500 => Verdict::Failed(Kind::Corrupt),
        _ => Verdict::Failed(Kind::Invalid),
    }
}

fn json_answer(value: &Value) -> Answer {
    Answer::new(Status::Ok, Content::Json(value.to_string().into()))
}

fn log_levels(shared: &Shared) -> Answer {
    let Some(levels) = &shared.settings.log_levels else { return errors::answer(&no_log()) };
    let levels: serde_json::Map<String, Value> =
        levels.levels().into_iter().map(|(section, level)| (section, level.into())).collect();
    json_answer(&Value::Object(levels))
}

fn set_log_levels(shared: &Shared, changes: &[(String, String)]) -> Result<(), Error> {
    shared.settings.log_levels.as_ref().ok_or_else(no_log)?.set(changes)
}

fn no_log() -> Error {
    Error::new(Reason::NotSupported, "this program has no log whose levels could be changed")
}

async fn checkpoint(shared: &Shared, target: &str) -> Result<String, Error> {
    let Some(folder) = &shared.settings.checkpoints else {
        return Err(Error::new(Reason::NotSupported, "this server makes no checkpoints"));
    };
    let path = inside(folder, target)?;
    shared.node.checkpoint(path.clone()).await?;
    Ok(path.display().to_string())
}

/// The path of a new folder directly within `folder`: a plain name, or the whole path of one.
fn inside(folder: &Path, target: &str) -> Result<PathBuf, Error> {
    let path = Path::new(target);
    let name = path.strip_prefix(folder).unwrap_or(path);
    let mut parts = name.components();
    let is_plain = |name: &std::ffi::OsStr| {
        let bytes = name.as_encoded_bytes();
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        bytes.len() <= 100 && bytes[0] != b'.' && bytes.iter().all(is_word)
    };
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) if is_plain(name) && !target.ends_with('/') => {
            Ok(folder.join(name))
        }
        _ => Err(Error::new(
            Reason::Forbidden,
            format!(
                "a checkpoint goes into {}; name a new folder there, of letters, digits, - _ .",
                folder.display()
            ),
        )),
    }
}

fn status(shared: &Shared) -> Value {
    let status = shared.node.status();
    let groups: Vec<Value> = status.groups.iter().map(group).collect();
    json!({
        "name": status.name,
        "node": status.node.0,
        "cluster": status.cluster.0,
        "incarnation": status.incarnation,
        "version": status.version,
        "uptime_ms": status.uptime_ms,
        "ready": ready(shared).is_ok(),
        "insecure": shared.settings.insecure,
        "groups": groups,
        "snapshots": status.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "log": {
            "bytes": status.log.bytes,
            "segments": status.log.segments,
            "syncs": status.log.syncs,
            "sync_us_p50": status.log.sync_us_p50,
            "sync_us_p99": status.log.sync_us_p99,
            "sync_us_mean": status.log.sync_us_mean,
            "slow": status.log.slow,
            "hangs": status.log.hangs,
            "unanswered_ms": status.log.unanswered_ms,
        },
        "store": {
            "disk_bytes": status.store.disk_bytes,
            "memory_bytes": status.store.memory_bytes,
            "cached_rows": status.store.cached_rows,
            "cached_bytes": status.store.cached_bytes,
            "rows_about": status.store.rows_about,
        },
        "disk": {
            "total_bytes": status.disk.total_bytes,
            "free_bytes": status.disk.free_bytes,
            "free_files": status.disk.free_files,
            "full": status.disk.full,
        },
        "available": available(&status.available),
        "lease_ms": status.lease_ms,
        "members": status.members.iter().map(cluster::member).collect::<Vec<_>>(),
        "buckets": status.buckets,
        "interval_buckets": status.interval_buckets,
        "connections": shared.counters.connections(),
        "requests": {
            "http": shared.counters.requests_total(Tongue::Http),
            "resp": shared.counters.requests_total(Tongue::Resp),
        },
        "warnings": status.warnings,
    })
}

fn group(group: &node::GroupStatus) -> Value {
    json!({
        "id": group.id.0,
        "role": group.role,
        "master": group.master,
        "ballot": group.ballot.to_string(),
        "decided": group.decided.0,
        "applied": group.applied.0,
        "durable": group.durable.0,
        "undecided": group.undecided,
        "sessions": group.sessions,
        "expect_progress_possible": group.expect_progress_possible,
        "members": cluster::parts(&group.members),
        "comparison": group.comparison.as_ref().map(cluster::comparison),
    })
}

fn snapshot(snapshot: &node::SnapshotStatus) -> Value {
    json!({
        "group": snapshot.group.0,
        "from": snapshot.from.0,
        "upto": snapshot.upto.0,
        "rows": snapshot.rows,
        "rows_about": snapshot.rows_about,
        "bytes": snapshot.bytes,
        "bytes_per_second": snapshot.bytes_per_second,
        "left_ms": snapshot.left_ms,
        "resumed": snapshot.resumed,
        "anew": snapshot.anew,
    })
}

fn available(status: &node::AvailableStatus) -> Value {
    let hints = status.hints.iter().map(|hints| {
        json!({ "node": hints.node, "rows": hints.rows, "since_ms_ago": hints.since_ms_ago })
    });
    json!({
        "ring_epoch": status.ring_epoch,
        "partitions": status.partitions,
        "spared": status.spared,
        "hints": hints.collect::<Vec<_>>(),
    })
}

/// Prometheus' text form, version 0.0.4.
fn metrics(shared: &Shared) -> String {
    let mut samples = shared.node.samples();
    samples.extend(shared.counters.samples());
    let mut text = String::new();
    write_samples(&mut text, samples);
    shared.counters.write_latencies(&mut text);
    text
}

/// All samples of one name stand together, under one line of help.
fn write_samples(text: &mut String, mut samples: Vec<Sample>) {
    samples.sort_by_key(|sample| sample.name);
    let mut last = "";
    for sample in &samples {
        if sample.name != last {
            last = sample.name;
            let kind = match sample.kind {
                SampleKind::Counter => "counter",
                SampleKind::Gauge => "gauge",
            };
            let _ = writeln!(text, "# HELP {last} {}", escaped(sample.help, false));
            let _ = writeln!(text, "# TYPE {last} {kind}");
        }
        text.push_str(sample.name);
        for (place, (name, value)) in sample.labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}{name}=\"{}\"", escaped(value, true));
        }
        if !sample.labels.is_empty() {
            text.push('}');
        }
        let _ = writeln!(text, " {}", sample.value);
    }
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_stay_in_their_folder() {
        let folder = Path::new("/data/checkpoints");
        let good = PathBuf::from("/data/checkpoints/monday-1.0");
        assert_eq!(inside(folder, "monday-1.0"), Ok(good.clone()));
        assert_eq!(inside(folder, "/data/checkpoints/monday-1.0"), Ok(good));
        let long = "x".repeat(101);
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc",
            "/data/checkpoints",
            "/data/checkpoints/",
            "/data/checkpoints/../x",
            "/data/checkpoints/a/b",
            "/data/checkpointsx/a",
            "./a",
            "a/",
            "a b",
            "a\0",
            "\u{e9}",
            ".hidden",
            long.as_str(),
        ] {
            assert!(inside(folder, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn samples_of_one_name_stand_under_one_line_of_help() {
        let sample = |name, bucket: &str, value| Sample {
            name,
            help: "How\nmany.",
            kind: SampleKind::Counter,
            labels: vec![("bucket", bucket.to_string())],
            value,
        };
        let mut text = String::new();
        let samples = vec![
            sample("b_total", "x\"y\\\n", 1.0),
            sample("a_total", "z", 2.5),
            sample("b_total", "w", 3.0),
        ];
        write_samples(&mut text, samples);
        let expected = [
            r#"# HELP a_total How\nmany."#,
            "# TYPE a_total counter",
            r#"a_total{bucket="z"} 2.5"#,
            r#"# HELP b_total How\nmany."#,
            "# TYPE b_total counter",
            r#"b_total{bucket="x\"y\\\n"} 1"#,
            r#"b_total{bucket="w"} 3"#,
            "",
        ]
        .join("\n");
        assert_eq!(text, expected);
    }
}

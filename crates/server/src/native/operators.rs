//! Routes of operators: status, metrics, health, log levels, checkpoints.

use super::json::views;
use super::render;
use super::translate::OperatorCall;
use super::{access, admission, checkpoints, emptying, errors, hot, moves, openapi, slow};
use crate::counters::{ClientProtocol, Verdict};
use crate::http::{AnswerContent, HttpAnswer, StatusCode};
use crate::shared::Shared;
use base::{Error, Kind, Principal, Reason};
use bytes::Bytes;
use node::{RecordedAct, Sample, SampleKind};
use serde::Serialize;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

const PLAIN: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Carries out an operator's request, which the principal may do, and records its outcome.
pub async fn answer(
    shared: &Arc<Shared>,
    principal: &Principal,
    (call, act): (OperatorCall, RecordedAct),
) -> HttpAnswer {
    let answer = match act.confirm().await {
        Ok(()) => carry_out(shared, principal, call).await,
        Err(error) => Err(error),
    };
    act.finish(&answer);
    answer.unwrap_or_else(|error| errors::answer(&error))
}

async fn carry_out(
    shared: &Arc<Shared>,
    principal: &Principal,
    call: OperatorCall,
) -> Result<HttpAnswer, Error> {
    Ok(match call {
        OperatorCall::Checkpoint(target) => {
            let target = checkpoints::create(shared, &target).await?;
            json_answer(&api::Checkpoint { target })
        }
        OperatorCall::ListCheckpoints => json_answer(&checkpoints::list(shared).await?),
        OperatorCall::RemoveCheckpoint(name) => {
            checkpoints::remove(shared, &name).await?;
            done()
        }
        OperatorCall::GetLogLevels => log_levels(shared)?,
        OperatorCall::PutLogLevels(changes) => {
            set_log_levels(shared, &changes)?;
            log_levels(shared)?
        }
        OperatorCall::Reload => json_answer(&shared.reload().await?),
        OperatorCall::ListSlowRequests => json_answer(&slow::list(shared)),
        OperatorCall::ResetSlowRequests => {
            shared.node.clear_slow_requests();
            done()
        }
        OperatorCall::ListHotKeys => json_answer(&hot::list(shared, principal)),
        OperatorCall::EmptyPrefix(call) => emptying::answer(shared, principal, call).await?,
        OperatorCall::SeeMove(bucket) => {
            json_answer(&moves::describe(&bucket, &shared.node.move_status(&bucket).await?))
        }
        OperatorCall::Cluster => json_answer(&overview(shared).await),
        OperatorCall::Transfer(group, to) => {
            shared.node.transfer(group, &to).await?;
            done()
        }
        OperatorCall::Verify(group) => {
            json_answer(&api::ComparisonPass { pass: shared.node.verify(group).await? })
        }
        OperatorCall::DecidedValue(group, index, token_digest) => {
            let value = shared.node.decided_value(principal, group, index, token_digest).await?;
            HttpAnswer::new(StatusCode::Ok, AnswerContent::Value(value))
        }
        OperatorCall::MakeToken(terms) => admission::create(shared, principal, terms).await?,
        OperatorCall::Access(request) => access::execute(shared, principal, request).await?,
        OperatorCall::Status => json_answer(&status(shared)),
        OperatorCall::Metrics => {
            let text = metrics(shared);
            HttpAnswer::new(StatusCode::Ok, AnswerContent::Text(PROMETHEUS, text.into()))
        }
        OperatorCall::Live => live(shared),
        OperatorCall::Ready => ready(shared),
        OperatorCall::OpenApi => {
            HttpAnswer::new(StatusCode::Ok, AnswerContent::Json(document(shared)))
        }
    })
}

/// Answers a call that was done and has no content to answer.
fn done() -> HttpAnswer {
    HttpAnswer::new(StatusCode::NoContent, AnswerContent::None)
}

/// Answers the liveness check: the process answers, and no long task of it stands still.
fn live(shared: &Shared) -> HttpAnswer {
    if shared.node.is_no_task_stalled() {
        return HttpAnswer::new(StatusCode::Ok, AnswerContent::Text(PLAIN, "live\n".into()));
    }
    let names: Vec<_> = shared.node.stalled_tasks().into_iter().map(|beat| beat.name).collect();
    let text = format!("tasks stand still: {}\n", names.join(", "));
    HttpAnswer::new(StatusCode::Unavailable, AnswerContent::Text(PLAIN, text.into()))
}

fn ready(shared: &Shared) -> HttpAnswer {
    match check_ready(shared) {
        Ok(()) => HttpAnswer::new(StatusCode::Ok, AnswerContent::Text(PLAIN, "ready\n".into())),
        // The status is 503 for every reason, so that health checks retry.
        Err(error) => errors::with_status(StatusCode::Unavailable, &error),
    }
}

fn check_ready(shared: &Shared) -> Result<(), Error> {
    if shared.is_closing() {
        return Err(Error::new(Reason::ShuttingDown, "the node is stopping"));
    }
    shared.node.readiness()
}

/// Returns the OpenAPI document, which is built once.
fn document(shared: &Shared) -> Bytes {
    let build = || {
        let levels = shared.settings.log_levels.as_ref().map(|levels| levels.levels());
        let sections: Vec<String> = levels.into_iter().flatten().map(|(name, _)| name).collect();
        openapi::document(&sections)
    };
    shared.openapi_document.get_or_init(build).clone()
}

/// Returns the verdict on an operator's answer, for the counters.
pub fn verdict(answer: &HttpAnswer) -> Verdict {
    match answer.status.code() {
        ..400 => Verdict::Success,
        429 | 503 => Verdict::Failed(Kind::Unavailable),
        500 => Verdict::Failed(Kind::Corrupt),
        _ => Verdict::Failed(Kind::Invalid),
    }
}

fn json_answer(value: &impl Serialize) -> HttpAnswer {
    render::json_answer(StatusCode::Ok, value)
}

fn log_levels(shared: &Shared) -> Result<HttpAnswer, Error> {
    let levels = shared.settings.log_levels.as_ref().ok_or_else(log_levels_unsupported)?;
    Ok(json_answer(&levels.levels().into_iter().collect::<api::SectionLevels>()))
}

fn set_log_levels(shared: &Shared, changes: &[(String, String)]) -> Result<(), Error> {
    shared.settings.log_levels.as_ref().ok_or_else(log_levels_unsupported)?.set(changes)
}

fn log_levels_unsupported() -> Error {
    Error::new(Reason::NotSupported, "this program has no log with adjustable levels")
}

/// Returns the node's status with the figures of the listeners.
fn status(shared: &Shared) -> api::NodeStatus {
    let not_ready = check_ready(shared).err().map(|error| error.text());
    let listener = |(serves, address): &(&str, SocketAddr)| api::ListenerStatus {
        address: address.to_string(),
        serves: serves.to_string(),
    };
    let total = |protocol| shared.counters.requests_total(protocol);
    api::NodeStatus {
        ready: not_ready.is_none(),
        not_ready,
        insecure: shared.settings.insecure,
        listeners: shared.listeners().iter().map(listener).collect(),
        connections: shared.counters.connections(),
        requests: api::RequestCounts {
            http: total(ClientProtocol::Http),
            resp: total(ClientProtocol::Resp),
            arakoon: total(ClientProtocol::Arakoon),
            riak: total(ClientProtocol::Riak),
        },
        ..views::status(&shared.node.status())
    }
}

/// Returns the cluster as this node sees it, with the node's alarms.
async fn overview(shared: &Shared) -> api::ClusterStatus {
    let view = shared.node.overview().await;
    views::cluster(&view, status(shared).alarms)
}

/// Returns the metrics in Prometheus' text format, version 0.0.4.
fn metrics(shared: &Shared) -> String {
    let mut samples = shared.node.samples();
    samples.extend(shared.counters.samples());
    let mut text = String::new();
    write_samples(&mut text, samples);
    shared.counters.write_latencies(&mut text);
    text
}

/// Writes samples, those of one name together under one line of help.
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
            let _ = writeln!(text, "# HELP {last} {}", escape(sample.help, false));
            let _ = writeln!(text, "# TYPE {last} {kind}");
        }
        text.push_str(sample.name);
        for (position, (name, value)) in sample.labels.iter().enumerate() {
            let before = if position == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}{name}=\"{}\"", escape(value, true));
        }
        if !sample.labels.is_empty() {
            text.push('}');
        }
        let _ = writeln!(text, " {}", sample.value);
    }
}

fn escape(text: &str, escape_quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if escape_quotes { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_samples_of_equal_name_share_help_and_type_lines() {
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

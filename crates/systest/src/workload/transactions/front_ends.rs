//! Connections to the front-ends: encoding of transactions, and meaning of the answers.

use super::{
    ANSWER_TIMEOUT, BUCKET, CLUSTER, Level, StepAnswer, TransactionAnswer, TransactionStep,
};
use crate::client::{
    Arakoon, ArakoonError, CallOutcome, Http, HttpResponse, Resp, RespReply, Riak,
    RiakOutcome as RiakReply,
};
use crate::client::{encode_command, encode_key};
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::KeyValue;
use crate::workload::transactions::TransactionAnswer::{Done, Failed};
use serde_json::{Value as Json, json};
use std::io;
use std::net::SocketAddr;

/// Answer: the outcome, and the index that it names. `None`: the front-end names none.
pub(super) type ProtocolAnswer = io::Result<(CallOutcome<TransactionAnswer>, Option<u64>)>;

/// Session of the native front-end, and the number of the request in it.
pub(super) type Retry = (u64, u64);

/// Number of front-ends in one round, some of them counted twice.
pub(super) const ROUND_LENGTH: usize = 6;

/// Connection to one of the front-ends.
pub(super) enum FrontEndClient {
    Resp(Resp),
    Http(Http),
    Riak(Riak),
    Arakoon(Arakoon),
}

impl FrontEndClient {
    /// Connects to a front-end; `at` wraps around their list. The first two are the most frequent.
    pub fn open(at: usize, address: SocketAddr) -> io::Result<FrontEndClient> {
        Ok(match at % ROUND_LENGTH {
            0 | 2 => {
                let mut resp = Resp::with_timeout(address, ANSWER_TIMEOUT)?;
                resp.call(&[b"CREDENZA.BUCKET", BUCKET.as_bytes()])?;
                FrontEndClient::Resp(resp)
            }
            4 => FrontEndClient::Riak(Riak::with_timeout(address, ANSWER_TIMEOUT)?),
            5 => FrontEndClient::Arakoon(Arakoon::with_timeout(address, CLUSTER, ANSWER_TIMEOUT)?),
            _ => FrontEndClient::Http(Http::with_timeout(address, ANSWER_TIMEOUT)?),
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            FrontEndClient::Resp(_) => "resp",
            FrontEndClient::Http(_) => "http",
            FrontEndClient::Riak(_) => "riak",
            FrontEndClient::Arakoon(_) => "arakoon",
        }
    }

    /// Reads or writes one key, as every front-end can.
    pub fn one(&mut self, step: &TransactionStep, level: Level) -> ProtocolAnswer {
        match self {
            FrontEndClient::Resp(resp) => resp_one(resp, step, level),
            FrontEndClient::Http(web) => http_one(web, step, level),
            FrontEndClient::Riak(riak) => riak_one(riak, step),
            FrontEndClient::Arakoon(arakoon) => arakoon_one(arakoon, step, level),
        }
    }
}

fn resp_args(step: &TransactionStep) -> Vec<Vec<u8>> {
    let bytes = |args: &[&str]| args.iter().map(|text| text.as_bytes().to_vec()).collect();
    match step {
        TransactionStep::Get(key) => bytes(&["GET", key]),
        TransactionStep::Set(key, value, ttl) => {
            let mut args: Vec<Vec<u8>> = bytes(&["SET", key]);
            args.push(value.clone());
            if let Some(ttl) = ttl {
                args.extend(bytes(&["PX", &ttl.to_string()]) as Vec<Vec<u8>>);
            }
            args
        }
        TransactionStep::Add(key, delta) => bytes(&["INCRBY", key, &delta.to_string()]),
        TransactionStep::AddFloat(key, delta) => bytes(&["INCRBYFLOAT", key, &delta.to_string()]),
        other => unreachable!("no client says {other:?} over RESP"),
    }
}

/// Returns the outcome of a step, by the reply to its command.
pub(super) fn read_resp_outcome(
    step: &TransactionStep,
    reply: RespReply,
) -> io::Result<CallOutcome<TransactionAnswer>> {
    let answer = match (reply.outcome(), step, &reply) {
        (CallOutcome::Unknown, ..) => return Ok(CallOutcome::Unknown),
        (CallOutcome::Refused, ..) => return Ok(CallOutcome::Refused),
        (_, TransactionStep::Get(_), RespReply::Bulk(value)) => StepAnswer::Row(value.clone()),
        (_, TransactionStep::Set(..), RespReply::Simple(_)) => StepAnswer::Done,
        (_, TransactionStep::Add(..), RespReply::Number(sum)) => {
            StepAnswer::Number(sum.to_string().into_bytes())
        }
        (_, TransactionStep::AddFloat(..), RespReply::Bulk(Some(sum))) => {
            StepAnswer::Number(sum.clone())
        }
        _ => return Err(invalid_answer(format!("{step:?} was answered {reply:?}"))),
    };
    Ok(Acknowledged(Done(vec![answer])))
}

/// Sends one request with a read level. The answer has no index.
fn resp_one(resp: &mut Resp, step: &TransactionStep, level: Level) -> ProtocolAnswer {
    let level = match level {
        Level::Consistent => "CONSISTENT".to_string(),
        Level::Dirty => "DIRTY".to_string(),
        Level::AtLeast(index) => format!("AT_LEAST {index}"),
    };
    let level = resp.call_line(&format!("CREDENZA.CONSISTENCY {level}"))?;
    if level.error().is_some() {
        return Ok((CallOutcome::Refused, None));
    }
    resp.send(&resp_bytes(step))?;
    Ok((read_resp_outcome(step, resp.receive()?)?, None))
}

/// Encodes the command of a step.
pub(super) fn resp_bytes(step: &TransactionStep) -> Vec<u8> {
    let args = resp_args(step);
    encode_command(&args.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Sends requests in one batch. Returns an outcome of each, and the error that ended the batch.
pub(super) fn pipelined(
    resp: &mut Resp,
    steps: &[TransactionStep],
) -> (Vec<CallOutcome<TransactionAnswer>>, io::Result<()>) {
    let bytes: Vec<u8> = steps.iter().flat_map(resp_bytes).collect();
    let mut outcomes = Vec::new();
    if let Err(error) = resp.call_line("CREDENZA.CONSISTENCY CONSISTENT") {
        return (steps.iter().map(|_| CallOutcome::Refused).collect(), Err(error));
    }
    let mut sent = resp.send(&bytes);
    for step in steps {
        let outcome =
            sent.and_then(|()| resp.receive()).and_then(|reply| read_resp_outcome(step, reply));
        sent = match outcome {
            Ok(outcome) => {
                outcomes.push(outcome);
                Ok(())
            }
            Err(error) => {
                outcomes.push(CallOutcome::Unknown);
                Err(error)
            }
        };
    }
    (outcomes, sent)
}

fn http_one(web: &mut Http, step: &TransactionStep, level: Level) -> ProtocolAnswer {
    let level = match level {
        Level::Consistent => "consistent".to_string(),
        Level::Dirty => "dirty".to_string(),
        Level::AtLeast(index) => format!("at_least:{index}"),
    };
    match step {
        TransactionStep::Get(key) => {
            let path = format!("{}?consistency={level}", key_path(key));
            let answer = web.request("GET", &path, b"")?;
            let index = answer_index(&answer);
            Ok(match (answer.status, answer.reason().as_str()) {
                (200, _) => (Acknowledged(Done(vec![StepAnswer::Row(Some(answer.body))])), index),
                (404, "not_found") => (Acknowledged(Done(vec![StepAnswer::Row(None)])), index),
                _ => (error_outcome(&answer)?, None),
            })
        }
        TransactionStep::Set(key, value, ttl) => {
            let ttl = ttl.map_or(String::new(), |ttl| format!("?ttl_ms={ttl}"));
            let headers = [("content-type", "application/octet-stream")];
            let answer =
                web.request_with_headers("PUT", &(key_path(key) + &ttl), &headers, value)?;
            Ok(match answer.status {
                204 => (Acknowledged(Done(vec![StepAnswer::Done])), answer_index(&answer)),
                _ => (error_outcome(&answer)?, None),
            })
        }
        TransactionStep::Range(prefix) => {
            let path = format!(
                "/v1/buckets/{BUCKET}/range?prefix={}&consistency={level}",
                encode_key(prefix.as_bytes())
            );
            let answer = web.request("GET", &path, b"")?;
            Ok(match answer.status {
                200 => (
                    Acknowledged(Done(vec![StepAnswer::Rows(decode_entries(&answer.json())?)])),
                    answer_index(&answer),
                ),
                _ => (error_outcome(&answer)?, None),
            })
        }
        step => sequence(web, std::slice::from_ref(step), None),
    }
}

fn key_path(key: &str) -> String {
    format!("/v1/buckets/{BUCKET}/keys/{}", encode_key(key.as_bytes()))
}

fn answer_index(answer: &HttpResponse) -> Option<u64> {
    answer.header("x-credenza-index").and_then(|text| text.parse().ok())
}

/// Returns the outcome of a request that was answered with an error.
fn error_outcome(answer: &HttpResponse) -> io::Result<CallOutcome<TransactionAnswer>> {
    let json = answer.json();
    match (json["error"]["kind"].as_str(), answer.reason().as_str()) {
        (Some("conflict"), "assertion_failed") => Ok(Acknowledged(Failed)),
        (Some("unavailable"), _) => Ok(CallOutcome::Refused),
        (Some("unknown" | "corrupt"), _) => Ok(CallOutcome::Unknown),
        _ => Err(invalid_answer(format!("{}: {}", answer.status, answer.text()))),
    }
}

/// Sends a sequence to the native front-end, in a session or without.
pub(super) fn sequence(
    web: &mut Http,
    steps: &[TransactionStep],
    retry: Option<Retry>,
) -> ProtocolAnswer {
    let body = Json::Array(steps.iter().map(step_json).collect()).to_string();
    let mut headers = vec![("content-type", "application/json".to_string())];
    if let Some((session, request)) = retry {
        headers.push(("x-credenza-session", session.to_string()));
        headers.push(("x-credenza-request", request.to_string()));
    }
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let path = format!("/v1/buckets/{BUCKET}/sequence");
    let answer = web.request_with_headers("POST", &path, &headers, body.as_bytes())?;
    if answer.status != 200 {
        return Ok((error_outcome(&answer)?, None));
    }
    let json = answer.json();
    let step_results = json["steps"].as_array().ok_or_else(|| invalid_answer(answer.text()))?;
    let answers: io::Result<Vec<_>> = steps
        .iter()
        .zip(step_results)
        .map(|(step, step_results)| read_step_answer(step, step_results))
        .collect();
    Ok((Acknowledged(Done(answers?)), answer_index(&answer)))
}

/// Opens a session of the native front-end.
pub(super) fn session(web: &mut Http) -> io::Result<u64> {
    let answer = web.request("POST", &format!("/v1/sessions/{BUCKET}"), b"")?;
    let id = answer.json()["session"].as_str().and_then(|digits| digits.parse().ok());
    id.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
}

fn step_json(step: &TransactionStep) -> Json {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let maybe = |value: &KeyValue| value.as_deref().map(text);
    match step {
        TransactionStep::Get(key) => json!({"op": "get", "key": key}),
        TransactionStep::Range(prefix) => json!({"op": "range", "prefix": prefix}),
        TransactionStep::Set(key, value, None) => {
            json!({"op": "set", "key": key, "value": text(value)})
        }
        TransactionStep::Set(key, value, Some(ttl)) => {
            json!({"op": "set", "key": key, "value": text(value), "ttl_ms": ttl})
        }
        TransactionStep::Delete(key) => json!({"op": "delete", "key": key}),
        TransactionStep::TestAndSet(key, expected, wanted) => json!({
            "op": "test_and_set", "key": key, "expected": maybe(expected), "wanted": text(wanted)
        }),
        TransactionStep::Assert(key, expected) => {
            json!({"op": "assert", "key": key, "expected": maybe(expected)})
        }
        TransactionStep::AssertRange(prefix, keys) => {
            json!({"op": "assert_range", "prefix": prefix, "keys": keys})
        }
        TransactionStep::Add(key, delta) => json!({"op": "add", "key": key, "delta": delta}),
        TransactionStep::AddFloat(key, delta) => {
            json!({"op": "add_float", "key": key, "delta": delta})
        }
    }
}

fn read_step_answer(step: &TransactionStep, result: &Json) -> io::Result<StepAnswer> {
    let value = |json: &Json| json.as_str().map(|text| text.as_bytes().to_vec());
    Ok(match step {
        TransactionStep::Get(_) => StepAnswer::Row(value(&result["read"]["row"]["value"])),
        TransactionStep::Range(_) => StepAnswer::Rows(decode_entries(&result["read"])?),
        TransactionStep::TestAndSet(..) => StepAnswer::Row(value(&result["old"])),
        TransactionStep::Add(..) => StepAnswer::Number(result["number"].to_string().into_bytes()),
        TransactionStep::AddFloat(..) => {
            StepAnswer::Number(value(&result["text"]).unwrap_or_default())
        }
        _ => StepAnswer::Done,
    })
}

fn decode_entries(json: &Json) -> io::Result<Vec<(String, Vec<u8>)>> {
    let entry = |one: &Json| {
        Some((one["key"].as_str()?.to_string(), one["value"].as_str()?.as_bytes().to_vec()))
    };
    let entries = json["entries"].as_array().filter(|_| json["more"] == false);
    let entries = entries.and_then(|entries| entries.iter().map(entry).collect());
    entries.ok_or_else(|| invalid_answer(format!("no whole range: {json}")))
}

fn riak_one(riak: &mut Riak, step: &TransactionStep) -> ProtocolAnswer {
    let answer = match step {
        TransactionStep::Get(key) => match riak.fetch(BUCKET, key, "")? {
            RiakReply::Done(object) => StepAnswer::Row(object.values.first().cloned()),
            RiakReply::Absent(_) => StepAnswer::Row(None),
            RiakReply::Other(answer) => return Ok((riak_error_outcome(&answer)?, None)),
        },
        TransactionStep::Set(key, value, None) => {
            match riak.store(BUCKET, key, value, (None, ""))? {
                RiakReply::Done(_) => StepAnswer::Done,
                RiakReply::Absent(_) => return Err(invalid_answer("a write finds nothing".into())),
                RiakReply::Other(answer) => return Ok((riak_error_outcome(&answer)?, None)),
            }
        }
        other => unreachable!("no client says {other:?} at Riak's front-end"),
    };
    Ok((Acknowledged(Done(vec![answer])), None))
}

/// Returns the outcome of a failed request. Riak's errors have no kind: only one of its refusals is
/// certain to have had no effect.
fn riak_error_outcome(answer: &HttpResponse) -> io::Result<CallOutcome<TransactionAnswer>> {
    match answer.status {
        500.. => Ok(CallOutcome::Unknown),
        _ => Err(invalid_answer(format!("{}: {}", answer.status, answer.text()))),
    }
}

fn arakoon_one(arakoon: &mut Arakoon, step: &TransactionStep, level: Level) -> ProtocolAnswer {
    const NOT_MASTER: i32 = 4;
    const NOT_FOUND: i32 = 5;
    const GOING_DOWN: i32 = 16;
    arakoon.read_level = u8::from(level == Level::Dirty);
    let result = match step {
        TransactionStep::Get(key) => {
            arakoon.get(key.as_bytes()).map(|value| StepAnswer::Row(Some(value)))
        }
        TransactionStep::Set(key, value, None) => {
            arakoon.set(key.as_bytes(), value).map(|()| StepAnswer::Done)
        }
        other => unreachable!("no client says {other:?} at Arakoon's front-end"),
    };
    let outcome = match result {
        Ok(answer) => Acknowledged(Done(vec![answer])),
        Err(ArakoonError::Broken(error)) => return Err(error),
        Err(error) => match error.code() {
            Some(NOT_FOUND) => Acknowledged(Done(vec![StepAnswer::Row(None)])),
            Some(NOT_MASTER | GOING_DOWN) => CallOutcome::Refused,
            _ => CallOutcome::Unknown,
        },
    };
    Ok((outcome, None))
}

pub(super) fn invalid_answer(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

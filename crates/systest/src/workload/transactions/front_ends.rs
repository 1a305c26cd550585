//! Connections to the front-ends: encoding of transactions, and meaning of the answers.

use super::{BUCKET, CLUSTER, Level, PATIENCE, StepAnswer, TransactionAnswer, TransactionStep};
use crate::client::{
    Arakoon, CallOutcome, Http, HttpResponse, Resp, RespReply, Riak, RiakOutcome as Shown, Trouble,
};
use crate::client::{command, encoded};
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
pub(super) const KINDS: usize = 6;

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
        Ok(match at % KINDS {
            0 | 2 => {
                let mut resp = Resp::with_patience(address, PATIENCE)?;
                resp.call(&[b"CREDENZA.BUCKET", BUCKET.as_bytes()])?;
                FrontEndClient::Resp(resp)
            }
            4 => FrontEndClient::Riak(Riak::with_patience(address, PATIENCE)?),
            5 => FrontEndClient::Arakoon(Arakoon::with_patience(address, CLUSTER, PATIENCE)?),
            _ => FrontEndClient::Http(Http::with_patience(address, PATIENCE)?),
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

fn resp_words(step: &TransactionStep) -> Vec<Vec<u8>> {
    let said = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    match step {
        TransactionStep::Get(key) => said(&["GET", key]),
        TransactionStep::Set(key, value, ttl) => {
            let mut words: Vec<Vec<u8>> = said(&["SET", key]);
            words.push(value.clone());
            if let Some(ttl) = ttl {
                words.extend(said(&["PX", &ttl.to_string()]) as Vec<Vec<u8>>);
            }
            words
        }
        TransactionStep::Add(key, delta) => said(&["INCRBY", key, &delta.to_string()]),
        TransactionStep::AddFloat(key, delta) => said(&["INCRBYFLOAT", key, &delta.to_string()]),
        other => unreachable!("no client says {other:?} over RESP"),
    }
}

fn resp_said(
    step: &TransactionStep,
    word: RespReply,
) -> io::Result<CallOutcome<TransactionAnswer>> {
    let said = match (word.outcome(), step, &word) {
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
        _ => return Err(strange(format!("{step:?} was answered {word:?}"))),
    };
    Ok(Acknowledged(Done(vec![said])))
}

/// Sends one request with a read level. The answer has no index.
fn resp_one(resp: &mut Resp, step: &TransactionStep, level: Level) -> ProtocolAnswer {
    let level = match level {
        Level::Consistent => "CONSISTENT".to_string(),
        Level::Dirty => "DIRTY".to_string(),
        Level::AtLeast(index) => format!("AT_LEAST {index}"),
    };
    let level = resp.say(&format!("CREDENZA.CONSISTENCY {level}"))?;
    if level.error().is_some() {
        return Ok((CallOutcome::Refused, None));
    }
    resp.send(&resp_bytes(step))?;
    Ok((resp_said(step, resp.receive()?)?, None))
}

fn resp_bytes(step: &TransactionStep) -> Vec<u8> {
    let words = resp_words(step);
    command(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Sends requests in one batch. Returns an outcome of each, and the error that ended the batch.
pub(super) fn pipelined(
    resp: &mut Resp,
    steps: &[TransactionStep],
) -> (Vec<CallOutcome<TransactionAnswer>>, io::Result<()>) {
    let bytes: Vec<u8> = steps.iter().flat_map(resp_bytes).collect();
    let mut all = Vec::new();
    if let Err(error) = resp.say("CREDENZA.CONSISTENCY CONSISTENT") {
        return (steps.iter().map(|_| CallOutcome::Refused).collect(), Err(error));
    }
    let mut sent = resp.send(&bytes);
    for step in steps {
        let outcome = sent.and_then(|()| resp.receive()).and_then(|word| resp_said(step, word));
        sent = match outcome {
            Ok(outcome) => {
                all.push(outcome);
                Ok(())
            }
            Err(error) => {
                all.push(CallOutcome::Unknown);
                Err(error)
            }
        };
    }
    (all, sent)
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
            let answer = web.ask("GET", &path, b"")?;
            let index = index(&answer);
            Ok(match (answer.status, answer.reason().as_str()) {
                (200, _) => (Acknowledged(Done(vec![StepAnswer::Row(Some(answer.body))])), index),
                (404, "not_found") => (Acknowledged(Done(vec![StepAnswer::Row(None)])), index),
                _ => (fate(&answer)?, None),
            })
        }
        TransactionStep::Set(key, value, ttl) => {
            let ttl = ttl.map_or(String::new(), |ttl| format!("?ttl_ms={ttl}"));
            let octets = [("content-type", "application/octet-stream")];
            let answer = web.ask_with("PUT", &(key_path(key) + &ttl), &octets, value)?;
            Ok(match answer.status {
                204 => (Acknowledged(Done(vec![StepAnswer::Done])), index(&answer)),
                _ => (fate(&answer)?, None),
            })
        }
        TransactionStep::Range(prefix) => {
            let path = format!(
                "/v1/buckets/{BUCKET}/range?prefix={}&consistency={level}",
                encoded(prefix.as_bytes())
            );
            let answer = web.ask("GET", &path, b"")?;
            Ok(match answer.status {
                200 => (
                    Acknowledged(Done(vec![StepAnswer::Rows(entries(&answer.json())?)])),
                    index(&answer),
                ),
                _ => (fate(&answer)?, None),
            })
        }
        step => sequence(web, std::slice::from_ref(step), None),
    }
}

fn key_path(key: &str) -> String {
    format!("/v1/buckets/{BUCKET}/keys/{}", encoded(key.as_bytes()))
}

fn index(answer: &HttpResponse) -> Option<u64> {
    answer.header("x-credenza-index").and_then(|text| text.parse().ok())
}

/// Returns the outcome of a request that was answered with an error.
fn fate(answer: &HttpResponse) -> io::Result<CallOutcome<TransactionAnswer>> {
    let json = answer.json();
    match (json["error"]["kind"].as_str(), answer.reason().as_str()) {
        (Some("conflict"), "assertion_failed") => Ok(Acknowledged(Failed)),
        (Some("unavailable"), _) => Ok(CallOutcome::Refused),
        (Some("unknown" | "corrupt"), _) => Ok(CallOutcome::Unknown),
        _ => Err(strange(format!("{}: {}", answer.status, answer.text()))),
    }
}

/// Sends a sequence to the native front-end, in a session or without.
pub(super) fn sequence(
    web: &mut Http,
    steps: &[TransactionStep],
    retry: Option<Retry>,
) -> ProtocolAnswer {
    let body = Json::Array(steps.iter().map(json_of).collect()).to_string();
    let mut headers = vec![("content-type", "application/json".to_string())];
    if let Some((session, request)) = retry {
        headers.push(("x-credenza-session", session.to_string()));
        headers.push(("x-credenza-request", request.to_string()));
    }
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let path = format!("/v1/buckets/{BUCKET}/sequence");
    let answer = web.ask_with("POST", &path, &headers, body.as_bytes())?;
    if answer.status != 200 {
        return Ok((fate(&answer)?, None));
    }
    let json = answer.json();
    let told = json["steps"].as_array().ok_or_else(|| strange(answer.text()))?;
    let said: io::Result<Vec<_>> =
        steps.iter().zip(told).map(|(step, told)| said_of(step, told)).collect();
    Ok((Acknowledged(Done(said?)), index(&answer)))
}

/// Opens a session of the native front-end.
pub(super) fn session(web: &mut Http) -> io::Result<u64> {
    let answer = web.ask("POST", &format!("/v1/sessions/{BUCKET}"), b"")?;
    let id = answer.json()["session"].as_str().and_then(|digits| digits.parse().ok());
    id.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
}

fn json_of(step: &TransactionStep) -> Json {
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

fn said_of(step: &TransactionStep, told: &Json) -> io::Result<StepAnswer> {
    let value = |json: &Json| json.as_str().map(|text| text.as_bytes().to_vec());
    Ok(match step {
        TransactionStep::Get(_) => StepAnswer::Row(value(&told["read"]["row"]["value"])),
        TransactionStep::Range(_) => StepAnswer::Rows(entries(&told["read"])?),
        TransactionStep::TestAndSet(..) => StepAnswer::Row(value(&told["old"])),
        TransactionStep::Add(..) => StepAnswer::Number(told["number"].to_string().into_bytes()),
        TransactionStep::AddFloat(..) => {
            StepAnswer::Number(value(&told["text"]).unwrap_or_default())
        }
        _ => StepAnswer::Done,
    })
}

fn entries(json: &Json) -> io::Result<Vec<(String, Vec<u8>)>> {
    let entry = |one: &Json| {
        Some((one["key"].as_str()?.to_string(), one["value"].as_str()?.as_bytes().to_vec()))
    };
    let all = json["entries"].as_array().filter(|_| json["more"] == false);
    let all = all.and_then(|all| all.iter().map(entry).collect());
    all.ok_or_else(|| strange(format!("no whole range: {json}")))
}

fn riak_one(riak: &mut Riak, step: &TransactionStep) -> ProtocolAnswer {
    let said = match step {
        TransactionStep::Get(key) => match riak.fetch(BUCKET, key, "")? {
            Shown::Done(shown) => StepAnswer::Row(shown.values.first().cloned()),
            Shown::Absent(_) => StepAnswer::Row(None),
            Shown::Other(answer) => return Ok((riak_fate(&answer)?, None)),
        },
        TransactionStep::Set(key, value, None) => {
            match riak.store(BUCKET, key, value, (None, ""))? {
                Shown::Done(_) => StepAnswer::Done,
                Shown::Absent(_) => return Err(strange("a write finds nothing".into())),
                Shown::Other(answer) => return Ok((riak_fate(&answer)?, None)),
            }
        }
        other => unreachable!("no client says {other:?} at Riak's front-end"),
    };
    Ok((Acknowledged(Done(vec![said])), None))
}

/// Returns the outcome of a failed request. Riak's errors have no kind: only one of its refusals is
/// certain to have had no effect.
fn riak_fate(answer: &HttpResponse) -> io::Result<CallOutcome<TransactionAnswer>> {
    match answer.status {
        500.. => Ok(CallOutcome::Unknown),
        _ => Err(strange(format!("{}: {}", answer.status, answer.text()))),
    }
}

fn arakoon_one(arakoon: &mut Arakoon, step: &TransactionStep, level: Level) -> ProtocolAnswer {
    const NOT_MASTER: i32 = 4;
    const NOT_FOUND: i32 = 5;
    const GOING_DOWN: i32 = 16;
    arakoon.freshness = u8::from(level == Level::Dirty);
    let given = match step {
        TransactionStep::Get(key) => {
            arakoon.get(key.as_bytes()).map(|value| StepAnswer::Row(Some(value)))
        }
        TransactionStep::Set(key, value, None) => {
            arakoon.set(key.as_bytes(), value).map(|()| StepAnswer::Done)
        }
        other => unreachable!("no client says {other:?} at Arakoon's front-end"),
    };
    let outcome = match given {
        Ok(said) => Acknowledged(Done(vec![said])),
        Err(Trouble::Broken(error)) => return Err(error),
        Err(trouble) => match trouble.code() {
            Some(NOT_FOUND) => Acknowledged(Done(vec![StepAnswer::Row(None)])),
            Some(NOT_MASTER | GOING_DOWN) => CallOutcome::Refused,
            _ => CallOutcome::Unknown,
        },
    };
    Ok((outcome, None))
}

pub(super) fn strange(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

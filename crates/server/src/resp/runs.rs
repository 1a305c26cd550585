//! Runs of a connection: consecutive plain `GET`s, or `SET`s without options, at the beginning of
//! its input, which the node answers together.
//!
//! Promises: the answers, the counts and the order are those of the same requests one by one; a run
//! is bounded in requests, in bytes, and by the answers that the connection may hold; whatever a
//! run leaves out stays in the input, and goes alone.
//! Never: waits for input; covers a request in a transaction, with a retry id, of a client that
//! switched answers off, or beside requests in flight.

use super::client::Replies;
use super::errors;
use super::large;
use super::run_frames::{plain_get, plain_set};
use super::serve::{ANSWER_BYTES, RespConnection};
use crate::counters::{OperationKind, Verdict};
use crate::slow::NamedRequest;
use base::{LogIndex, ReadLevel};
use bytes::Buf;
use node::{KeyAccess, RUN_BYTES_MAX, RUN_REQUESTS_MAX};

/// Requests of a run that were answered, with the number of bytes of their frames.
struct RunEnd {
    requests: usize,
    bytes: usize,
    /// Index of the last answer.
    index: LogIndex,
}

/// Counts of a run's answers.
#[derive(Default)]
struct GetCounts {
    hits: u64,
    misses: u64,
    errors: u64,
    /// Verdicts of the gets that failed.
    failures: Vec<Verdict>,
}

/// Requests at the beginning of an input.
struct Gathered<T> {
    requests: Vec<T>,
    /// End of each request's frame in the input. It fits a `u32`, since a run is far smaller.
    ends: [u32; RUN_REQUESTS_MAX],
}

impl<T> Gathered<T> {
    /// Gathers the requests that `next` finds: at most `requests_max`, in at most `RUN_BYTES_MAX`
    /// bytes.
    #[inline]
    fn new<'a>(
        input: &'a [u8],
        requests_max: usize,
        next: impl Fn(&'a [u8]) -> Option<(T, usize)>,
    ) -> Gathered<T> {
        let mut requests = Vec::with_capacity(RUN_REQUESTS_MAX);
        let mut ends = [0; RUN_REQUESTS_MAX];
        let mut at = 0;
        for end in ends.iter_mut().take(requests_max) {
            let Some((request, bytes)) = next(&input[at..]) else { break };
            if at + bytes > RUN_BYTES_MAX {
                break;
            }
            at += bytes;
            *end = at as u32;
            requests.push(request);
        }
        Gathered { requests, ends }
    }

    /// Returns the end of a run with this many of the requests. `None`: there is none.
    fn run_end(&self, requests: usize, index: LogIndex) -> Option<RunEnd> {
        let bytes = self.ends[..requests].last().copied()? as usize;
        Some(RunEnd { requests, bytes, index })
    }
}

impl RespConnection {
    /// Answers a run of at most `requests_max` requests. Returns their number. 0: the next request
    /// goes alone.
    #[inline]
    pub(super) fn handle_run(&mut self, requests_max: usize) -> usize {
        let input = &self.read_buffer.input;
        let run = if plain_get(input).is_some() {
            self.run_gets(requests_max)
        } else if plain_set(input).is_some() {
            self.run_sets(requests_max)
        } else {
            None
        };
        let Some(RunEnd { requests, bytes, index }) = run else { return 0 };
        self.read_buffer.input.advance(bytes);
        // The parser may have begun the first of them, before it was complete.
        self.parser.restart();
        self.client.counts.commands += requests as u64;
        self.client.last_index = index;
        requests
    }

    /// Returns true if the state of the connection permits a run.
    fn may_run(&mut self) -> bool {
        if self.lone_requests > 0 {
            self.lone_requests -= 1;
            return false;
        }
        self.window.is_empty()
            && self.client.transaction.is_none()
            && self.client.replies == Replies::On
            && self.client.retry.is_none()
            && !self.read_buffer.is_closing()
    }

    fn run_gets(&mut self, requests_max: usize) -> Option<RunEnd> {
        if !self.may_run() || self.client.read_level != ReadLevel::Consistent {
            return None;
        }
        let shared = &*self.shared;
        let run = shared.node.begin_gets(&mut self.flow, &self.client.bucket)?;
        let gets = Gathered::new(&self.read_buffer.input, requests_max, |input| {
            plain_get(input).filter(|(key, _)| run.accepts(key))
        });
        if let (None, Some(key)) = (self.first_request, gets.requests.first()) {
            self.first_request = Some(NamedRequest::of_key("get", key));
        }
        let (begin, mut answered, mut counts) = (self.out.position(), 0, GetCounts::default());
        let (out, budget) = (&mut self.out, &mut self.answer_budget);
        let index = run.read(&gets.requests, &mut |value| {
            let bytes = value
                .as_ref()
                .map_or(0, |row| row.as_ref().map_or(0, |value| value.as_slice().len()));
            let fits = large::reserve(out, (&mut *budget, shared), bytes, None);
            match value {
                _ if !fits => counts.errors += 1,
                Ok(Some(value)) => {
                    counts.hits += 1;
                    out.lent_value(value.as_slice(), || value.share());
                }
                Ok(None) => {
                    counts.misses += 1;
                    out.null();
                }
                Err(error) => {
                    counts.errors += 1;
                    counts.failures.push(Verdict::Failed(error.kind()));
                    out.error(&errors::text(&error));
                }
            }
            answered += 1;
            out.len() < ANSWER_BYTES
        });
        let Some(index) = index else {
            self.out.truncate(begin);
            self.lone_requests = gets.requests.len();
            return None;
        };
        let end = gets.run_end(answered, index)?;
        let keys = gets.requests[..answered].iter().copied();
        shared.node.count_accesses(&self.client.bucket, KeyAccess::Read, keys);
        self.client.last_command = "get";
        self.client.counts.hits += counts.hits;
        self.client.counts.misses += counts.misses;
        self.client.counts.errors += counts.errors;
        let succeeded = answered - counts.failures.len();
        self.record_outcomes(OperationKind::Get, Verdict::Success, succeeded as u64);
        for failure in counts.failures {
            self.record_outcome(OperationKind::Get, failure);
        }
        Some(end)
    }

    fn run_sets(&mut self, requests_max: usize) -> Option<RunEnd> {
        if !self.may_run() {
            return None;
        }
        let shared = &*self.shared;
        let run = shared.node.begin_sets(&self.flow, &self.client.bucket)?;
        let sets = Gathered::new(&self.read_buffer.input, requests_max, |input| {
            plain_set(input).filter(|((key, value), _)| run.accepts(key, value))
        });
        if let (None, Some((key, _))) = (self.first_request, sets.requests.first()) {
            self.first_request = Some(NamedRequest::of_key("set", key));
        }
        let (mut errors, mut index) = (0, self.client.last_index);
        let (out, budget) = (&mut self.out, &mut self.answer_budget);
        let accepted = run.submit(&mut self.flow, &sets.requests, &mut |ticket| {
            let from = out.position();
            match large::reserve(out, (&mut *budget, shared), 0, Some(ticket.index)) {
                true => out.ok(),
                false => errors += 1,
            }
            out.attach_run_ticket(from, ticket);
            index = ticket.index;
        });
        // Those behind a refused set go alone too: trying a run for each would cost the square.
        self.lone_requests = sets.requests.len() - accepted;
        let end = sets.run_end(accepted, index)?;
        let keys = sets.requests[..accepted].iter().map(|(key, _)| *key);
        shared.node.count_accesses(&self.client.bucket, KeyAccess::Write, keys);
        self.client.last_command = "set";
        self.client.counts.errors += errors;
        self.record_outcomes(OperationKind::Put, Verdict::Success, accepted as u64);
        Some(end)
    }
}

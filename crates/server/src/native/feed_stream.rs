//! Service of feeds over HTTP: pages that wait for an event, and streams that push events as they
//! happen.
//!
//! Nothing queues for a reader. A stream reads a page, sends it, and reads the next one: a slow
//! client reads later, and one that reads nothing is cut off. While nothing changes, a stream holds
//! its token and a timer; the node bounds how many of them wait.

use super::connection::{ConnectionEnd, NativeConnection};
use super::errors;
use super::feed::FeedForm;
use super::feed_messages::FeedMessages;
use super::json::size;
use super::output::{self, AnswerOrigin};
use super::stream::{self, LAST_CHUNK};
use super::translate::NativeShape;
use crate::buffer_budget::{BufferBudget, overloaded};
use crate::counters::{ClientProtocol, Verdict};
use crate::feed_reader::FeedReader;
use crate::http::AnswerContent;
use crate::shared::shutting_down_error;
use crate::slow::SlowTarget;
use crate::writer;
use base::limits::FEED_WAIT_MS_MAX;
use base::{Error, FeedPage, Key, Kind, Request};
use std::time::Duration;
use tokio::time::Instant;

/// Time in milliseconds after which a stream that said nothing sends a sign of life, so that both
/// sides notice a dead connection.
const HEARTBEAT_MS: u64 = 15_000;
/// Time in milliseconds for which a stream tries to go on while no master or quorum answers. Then
/// it ends, and its client may ask another node.
const UNAVAILABLE_MS_MAX: u64 = 30_000;

/// Answers a read of a feed.
pub async fn answer(
    connection: &mut NativeConnection,
    request: Request,
    form: FeedForm,
    mut origin: AnswerOrigin,
) -> Result<(), ConnectionEnd> {
    origin.target = Some(SlowTarget::of(&request));
    // Wait for earlier requests first: the events must include their updates.
    connection.flush().await?;
    let NativeConnection { shared, flow, shutdown, .. } = &*connection;
    let reader = FeedReader::new(shared, flow.principal(), shutdown, request);
    match form {
        FeedForm::Page => {
            answer_page(connection, reader, origin).await;
            Ok(())
        }
        FeedForm::Lines | FeedForm::Events => push_events(connection, reader, form, origin).await,
    }
}

/// Answers with one page.
async fn answer_page(
    connection: &mut NativeConnection,
    mut reader: FeedReader,
    mut origin: AnswerOrigin,
) {
    let (result, waited) = reader.read_event().await;
    // A wait for an event is no latency.
    origin.parsed_at += waited;
    let (mut answer, verdict) =
        connection.render(&NativeShape::Json, &Key::new(), &result, origin.is_read);
    let shared = connection.shared.clone();
    answer.master = shared.node.remote_master(&reader.request().bucket);
    connection.output.push(&shared, answer, origin, verdict);
}

/// Sends events until the connection must end, or the feed can't be read.
async fn push_events(
    connection: &mut NativeConnection,
    mut reader: FeedReader,
    form: FeedForm,
    origin: AnswerOrigin,
) -> Result<(), ConnectionEnd> {
    let (shared, encode_options) = (connection.shared.clone(), origin.encode_options);
    let first = reader.read(0).await.and_then(|page| page.ok_or_else(shutting_down_error));
    let (index, first) = match first {
        Ok(first) => first,
        Err(error) => {
            let verdict = Verdict::Failed(error.kind());
            connection.output.push(&shared, errors::answer(&error), origin, verdict);
            return Ok(());
        }
    };
    let elapsed = origin.parsed_at.elapsed();
    shared.counters.observe(ClientProtocol::Http, origin.operation, Verdict::Success, elapsed);
    output::report_slow(&shared, &origin, elapsed);
    let content = match form {
        FeedForm::Events => AnswerContent::EventStream,
        FeedForm::Lines | FeedForm::Page => AnswerContent::JsonLines,
    };
    let mut head = Vec::new();
    stream::write_head(&shared, reader.request(), (content, index), encode_options, &mut head);
    let messages = FeedMessages::new(form);
    let mut pusher = EventPusher::new(connection, messages, encode_options.is_http_10);
    writer::write_bytes(&mut pusher.connection.stream, &head).await?;
    drop(head);
    let (mut page, mut failing_since) = (Some(first), None);
    loop {
        match page.take() {
            None => pusher.push_heartbeat().await?,
            Some(page) => {
                if !pusher.push_page(&page).await? {
                    return pusher.end_with_error(&overloaded()).await;
                }
            }
        }
        match reader.read(pusher.wait_ms()).await {
            Ok(Some((_, next))) => (page, failing_since) = (Some(next), None),
            Ok(None) => return pusher.end().await,
            Err(error) => {
                let since = *failing_since.get_or_insert_with(Instant::now);
                let is_too_long = since.elapsed() >= Duration::from_millis(UNAVAILABLE_MS_MAX);
                if error.kind() != Kind::Unavailable || is_too_long {
                    return pusher.end_with_error(&error).await;
                }
                if !reader.pause().await {
                    return pusher.end().await;
                }
            }
        }
    }
}

/// Sender of a stream's messages.
struct EventPusher<'a> {
    connection: &'a mut NativeConnection,
    messages: FeedMessages,
    is_http_10: bool,
    /// Time of the last message.
    said_at: Instant,
    /// True if nothing more was decided when the last page was read.
    is_level: bool,
}

impl<'a> EventPusher<'a> {
    fn new(
        connection: &'a mut NativeConnection,
        messages: FeedMessages,
        is_http_10: bool,
    ) -> EventPusher<'a> {
        let (said_at, is_level) = (Instant::now(), false);
        EventPusher { connection, messages, is_http_10, said_at, is_level }
    }

    /// Returns the time for which the next read may wait for an event, in milliseconds.
    fn wait_ms(&self) -> u64 {
        let silent_ms = self.said_at.elapsed().as_millis() as u64;
        match self.is_level {
            true => HEARTBEAT_MS.saturating_sub(silent_ms).clamp(1, FEED_WAIT_MS_MAX),
            false => 0,
        }
    }

    /// Sends a page, or a heartbeat if the client knows all of it. Returns false if there is no
    /// memory for the page.
    async fn push_page(&mut self, page: &FeedPage) -> Result<bool, ConnectionEnd> {
        let (shared, mut budget) = (self.connection.shared.clone(), BufferBudget::default());
        let bytes = page.events.iter().map(size::event_bytes).sum();
        if !stream::wait_for_memory(&shared, &mut budget, bytes).await {
            return Ok(false);
        }
        self.is_level = page.level;
        let mut out = Vec::new();
        let messages = &mut self.messages;
        stream::append_chunk_of(&mut out, self.is_http_10, |out| messages.append_page(out, page));
        match out.is_empty() {
            true => self.push_heartbeat().await?,
            false => self.send(&out).await?,
        }
        Ok(true)
    }

    /// Sends a sign of life, if it is time for one.
    async fn push_heartbeat(&mut self) -> Result<(), ConnectionEnd> {
        if self.said_at.elapsed() < Duration::from_millis(HEARTBEAT_MS) {
            return Ok(());
        }
        let mut out = Vec::new();
        let messages = &mut self.messages;
        stream::append_chunk_of(&mut out, self.is_http_10, |out| messages.append_heartbeat(out));
        self.send(&out).await
    }

    async fn send(&mut self, out: &[u8]) -> Result<(), ConnectionEnd> {
        writer::write_bytes(&mut self.connection.stream, out).await?;
        self.said_at = Instant::now();
        Ok(())
    }

    /// Ends the stream so that the client knows that nothing is missing before the end.
    async fn end(mut self) -> Result<(), ConnectionEnd> {
        if self.is_http_10 {
            return Err(ConnectionEnd::Disconnected);
        }
        self.send(LAST_CHUNK).await
    }

    /// Ends the stream with an error, and without its last chunk.
    async fn end_with_error(mut self, error: &Error) -> Result<(), ConnectionEnd> {
        let (messages, mut out) = (&self.messages, Vec::new());
        stream::append_chunk_of(&mut out, self.is_http_10, |out| messages.append_error(out, error));
        self.send(&out).await?;
        Err(ConnectionEnd::Disconnected)
    }
}

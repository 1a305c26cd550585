//! Streams of a range as JSON lines: page by page, as fast as the client reads, in bounded memory.

use super::connection::{ConnectionEnd, NativeConnection};
use super::errors;
use super::json::{size, write};
use super::output::{self, AnswerOrigin};
use crate::buffer_budget::{BufferBudget, overloaded};
use crate::counters::{ClientProtocol, Verdict};
use crate::http::answer::EncodeOptions;
use crate::http::date::DateCache;
use crate::http::{AnswerContent, HttpAnswer, StatusCode};
use crate::shared::Shared;
use crate::stages::WaitStage;
use crate::writer;
use base::limits::ANSWER_WRITE_MS_MAX;
use base::request::Call;
use base::{Body, Error, Page, Principal, Range, Read, Reason, Request};
use std::io::Write;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Size of a page in bytes of keys and values; a page holds at least one row.
const PAGE_BYTES: usize = 256 * 1024;
/// Number of rows in a page.
const PAGE_ROWS: usize = 4_096;
/// Memory reserved for a page and its JSON in bytes. A page with a larger row takes more, as long
/// as its client reads it.
const RESERVED_BYTES: usize = 3 * PAGE_BYTES;
/// Pause in milliseconds between two attempts to get memory.
const MEMORY_RETRY_MS: u64 = 5;

/// Sends all rows of the range. An error after the first page becomes the last line, and the body
/// then lacks its final chunk.
pub async fn rows(
    connection: &mut NativeConnection,
    request: Request,
    mut range: Range,
    mut origin: AnswerOrigin,
) -> Result<(), ConnectionEnd> {
    let shared = connection.shared.clone();
    let Some(_reserved) = shared.reserve(RESERVED_BYTES) else {
        let text = "too many ranges are being streamed: try again later";
        let error = Error::new(Reason::Overloaded, text);
        let verdict = Verdict::Failed(error.kind());
        connection.output.push(&shared, errors::answer(&error), origin, verdict);
        return Ok(());
    };
    range.bytes_max = Some(PAGE_BYTES);
    range.rows_max = Some(PAGE_ROWS);
    // Wait for earlier requests first: the rows must include their updates.
    connection.flush().await?;
    let (mut out, mut head_is_written, encode_options) = (Vec::new(), false, origin.encode_options);
    let mut page_budget = BufferBudget::default();
    loop {
        let (principal, page) = (connection.flow.principal(), page_request(&request, &range));
        let reading = read_page(&shared, principal, page, head_is_written);
        let reply = origin.stages.measure(WaitStage::Reply, reading).await;
        let page = match reply {
            Ok(base::Reply { index, body: Body::Page(page), .. }) => {
                if !head_is_written {
                    write_head(&shared, (&request, index), encode_options, &mut out);
                    head_is_written = true;
                }
                page
            }
            Ok(_) => unreachable!("a range is answered with a page"),
            Err(error) if !head_is_written => {
                let verdict = Verdict::Failed(error.kind());
                connection.output.push(&shared, errors::answer(&error), origin, verdict);
                return Ok(());
            }
            Err(error) => return write_error(connection, &error, origin).await,
        };
        let last = page.entries.last().filter(|_| page.more).map(|entry| entry.key.clone());
        if !wait_for_memory(&shared, &mut page_budget, &page).await {
            // The rows so far end with whole lines, and the head precedes the error.
            writer::write_bytes(&mut connection.stream, &out).await?;
            return write_error(connection, &overloaded(), origin).await;
        }
        if !encode_options.head_only {
            append_lines(&mut out, &page, encode_options.is_http_10);
        }
        drop(page);
        let Some(last) = last else { break };
        let writing = writer::write_bytes(&mut connection.stream, &out);
        origin.stages.measure(WaitStage::Send, writing).await?;
        out.clear();
        // A page with a large row leaves a large buffer.
        out.shrink_to(RESERVED_BYTES);
        page_budget.release();
        range = range.after(last);
    }
    if !encode_options.is_http_10 && !encode_options.head_only {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    let writing = writer::write_bytes(&mut connection.stream, &out);
    origin.stages.measure(WaitStage::Send, writing).await?;
    let elapsed = origin.parsed_at.elapsed();
    shared.counters.observe(ClientProtocol::Http, origin.operation, Verdict::Success, elapsed);
    output::report_slow(&shared, &origin, elapsed);
    // Without chunks only the end of the connection marks the end of the lines.
    if encode_options.is_http_10 { Err(ConnectionEnd::Disconnected) } else { Ok(()) }
}

/// Reads a page. A quota must not break off an answer that has begun: its debt delays the next
/// request instead.
async fn read_page(
    shared: &Shared,
    principal: &Principal,
    page: Request,
    has_begun: bool,
) -> Result<base::Reply, Error> {
    match has_begun {
        false => shared.node.handle(principal, page).await,
        true => shared.node.handle_next(principal, page).await,
    }
}

/// Writes the head of the answer. `index`: index of the first page.
fn write_head(
    shared: &Shared,
    (request, index): (&Request, base::LogIndex),
    encode_options: EncodeOptions,
    out: &mut Vec<u8>,
) {
    let mut answer = HttpAnswer::new(StatusCode::Ok, AnswerContent::JsonLines);
    answer.index = Some(index.0);
    answer.master = shared.node.remote_master(&request.bucket);
    let now_ms = shared.clock.unix_ms();
    let mut date = DateCache::new(now_ms);
    answer.encode_head(out, encode_options, date.format_at(now_ms));
}

/// Waits for memory for a page that is larger than `RESERVED_BYTES`, as long as a client may take
/// to read one. Returns false if none became free.
async fn wait_for_memory(shared: &Shared, budget: &mut BufferBudget, page: &Page) -> bool {
    let bytes = page.entries.iter().map(size::entry_bytes).sum::<usize>();
    let deadline = Instant::now() + Duration::from_millis(ANSWER_WRITE_MS_MAX);
    while !budget.try_reserve(bytes.saturating_sub(RESERVED_BYTES), shared) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(Duration::from_millis(MEMORY_RETRY_MS)).await;
    }
    true
}

fn page_request(request: &Request, range: &Range) -> Request {
    let mut request = request.clone();
    if let Call::Read(read, _) = &mut request.call {
        *read = Read::Range(range.clone());
    }
    request
}

/// Appends a page as lines, in one chunk. The length of the chunk is filled in last, so that the
/// lines are not copied.
fn append_lines(out: &mut Vec<u8>, page: &Page, is_http_10: bool) {
    const NO_LENGTH: &[u8] = b"00000000\r\n";
    if page.entries.is_empty() {
        return;
    }
    let start = out.len();
    if !is_http_10 {
        out.extend_from_slice(NO_LENGTH);
    }
    let lines_start = out.len();
    for entry in &page.entries {
        write::append_entry(out, entry);
        out.push(b'\n');
    }
    if !is_http_10 {
        let length = format!("{:08x}\r\n", out.len() - lines_start);
        out[start..lines_start].copy_from_slice(length.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

async fn write_error(
    connection: &mut NativeConnection,
    error: &Error,
    origin: AnswerOrigin,
) -> Result<(), ConnectionEnd> {
    let mut line = vec![b'{'];
    errors::append_error(&mut line, error);
    line.extend_from_slice(b"}\n");
    let mut out = Vec::new();
    if origin.encode_options.is_http_10 {
        out = line;
    } else {
        let _ = write!(out, "{:x}\r\n", line.len());
        out.append(&mut line);
        out.extend_from_slice(b"\r\n");
    }
    writer::write_bytes(&mut connection.stream, &out).await?;
    let elapsed = origin.parsed_at.elapsed();
    let verdict = Verdict::Failed(error.kind());
    connection.shared.counters.observe(ClientProtocol::Http, origin.operation, verdict, elapsed);
    Err(ConnectionEnd::Disconnected)
}

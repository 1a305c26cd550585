//! Streams of a range as JSON lines: page by page, as fast as the client reads, in bounded memory.

use super::connection::{ConnectionEnd, NativeConnection};
use super::errors;
use super::json::write;
use super::output::{self, AnswerOrigin};
use crate::counters::{ClientProtocol, Verdict};
use crate::http::date::DateCache;
use crate::http::{AnswerContent, HttpAnswer, StatusCode};
use base::request::Call;
use base::{Body, Error, Page, Range, Read, Reason, Request};
use std::io::Write;

/// Size of a page in bytes of keys and values; a page holds at least one row.
const PAGE_BYTES: usize = 256 * 1024;
/// Number of rows in a page.
const PAGE_ROWS: usize = 4_096;
/// Memory reserved for a page and its JSON in bytes.
const RESERVED_BYTES: usize = 3 * PAGE_BYTES;

/// Sends all rows of the range. An error after the first page becomes the last line, and the body
/// then lacks its final chunk.
pub async fn rows(
    connection: &mut NativeConnection,
    request: Request,
    mut range: Range,
    origin: AnswerOrigin,
) -> Result<(), ConnectionEnd> {
    let shared = connection.shared.clone();
    let _reserved = match shared.reserve(RESERVED_BYTES) {
        Some(reserved) => reserved,
        None => {
            let error = Error::new(
                Reason::Overloaded,
                "too many ranges are being streamed: try again later",
            );
            let verdict = Verdict::Failed(error.kind());
            connection.output.push(&shared, errors::answer(&error), origin, verdict);
            return Ok(());
        }
    };
    range.bytes_max = Some(PAGE_BYTES);
    range.rows_max = Some(PAGE_ROWS);
    // Wait for earlier requests first: the rows must include their updates.
    connection.flush().await?;
    let encode_options = origin.encode_options;
    let mut out = Vec::new();
    let mut head_is_written = false;
    loop {
        let reply = shared.node.handle(page_request(&request, &range)).await;
        let page = match reply {
            Ok(base::Reply { index, body: Body::Page(page), .. }) => {
                if !head_is_written {
                    let mut answer = HttpAnswer::new(StatusCode::Ok, AnswerContent::JsonLines);
                    answer.index = Some(index.0);
                    answer.master = shared.node.remote_master(&request.bucket);
                    let now_ms = shared.clock.unix_ms();
                    let mut date = DateCache::new(now_ms);
                    answer.encode_head(&mut out, encode_options, date.format_at(now_ms));
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
        if !encode_options.head_only {
            append_lines(&mut out, &page, encode_options.is_http_10);
        }
        drop(page);
        let Some(last) = last else { break };
        output::write(&mut connection.stream, &out).await?;
        out.clear();
        range = range.after(last);
    }
    if !encode_options.is_http_10 && !encode_options.head_only {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    output::write(&mut connection.stream, &out).await?;
    let elapsed = origin.parsed_at.elapsed();
    shared.counters.observe(ClientProtocol::Http, origin.operation, Verdict::Success, elapsed);
    // Without chunks only the end of the connection marks the end of the lines.
    if encode_options.is_http_10 { Err(ConnectionEnd::Disconnected) } else { Ok(()) }
}

fn page_request(request: &Request, range: &Range) -> Request {
    let mut request = request.clone();
    if let Call::Read(read, _) = &mut request.call {
        *read = Read::Range(range.clone());
    }
    request
}

/// Appends a page as lines, in one chunk.
fn append_lines(out: &mut Vec<u8>, page: &Page, is_http_10: bool) {
    if page.entries.is_empty() {
        return;
    }
    let mut lines = Vec::new();
    for entry in &page.entries {
        write::append_entry(&mut lines, entry);
        lines.push(b'\n');
    }
    if is_http_10 {
        out.append(&mut lines);
        return;
    }
    // Writing to a vector can't fail.
    let _ = write!(out, "{:x}\r\n", lines.len());
    out.append(&mut lines);
    out.extend_from_slice(b"\r\n");
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
    output::write(&mut connection.stream, &out).await?;
    let elapsed = origin.parsed_at.elapsed();
    let verdict = Verdict::Failed(error.kind());
    connection.shared.counters.observe(ClientProtocol::Http, origin.operation, verdict, elapsed);
    Err(ConnectionEnd::Disconnected)
}

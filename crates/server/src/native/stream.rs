//! Streams of a range as JSON lines: page by page, as fast as the client reads, in bounded memory.

use super::connection::{NativeConnection, Stop};
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

/// Sends all rows of the range. An error on the way becomes the last line, and the body then lacks
/// its proper end.
pub async fn rows(
    conversation: &mut NativeConnection,
    request: Request,
    mut range: Range,
    asked: AnswerOrigin,
) -> Result<(), Stop> {
    let shared = conversation.shared.clone();
    let _reserved = match shared.reserve(RESERVED_BYTES) {
        Some(reserved) => reserved,
        None => {
            let error = Error::new(Reason::Overloaded, "too many ranges are being read");
            let verdict = Verdict::Failed(error.kind());
            conversation.output.push(&shared, errors::answer(&error), asked, verdict);
            return Ok(());
        }
    };
    range.bytes_max = Some(PAGE_BYTES);
    range.rows_max = Some(PAGE_ROWS);
    // Settle earlier requests first: the rows must include their updates.
    conversation.say().await?;
    let manner = asked.manner;
    let mut out = Vec::new();
    let mut has_begun = false;
    loop {
        let reply = shared.node.handle(page_request(&request, &range)).await;
        let page = match reply {
            Ok(base::Reply { index, body: Body::Page(page), .. }) => {
                if !has_begun {
                    let mut answer = HttpAnswer::new(StatusCode::Ok, AnswerContent::JsonLines);
                    answer.index = Some(index.0);
                    answer.master = shared.node.other_master(&request.bucket);
                    let now_ms = shared.clock.unix_ms();
                    answer.encode_head(&mut out, manner, DateCache::new(now_ms).at(now_ms));
                    has_begun = true;
                }
                page
            }
            Ok(_) => unreachable!("a range is answered with a page"),
            Err(error) if !has_begun => {
                let verdict = Verdict::Failed(error.kind());
                conversation.output.push(&shared, errors::answer(&error), asked, verdict);
                return Ok(());
            }
            Err(error) => return broken(conversation, &error, asked).await,
        };
        let last = page.entries.last().filter(|_| page.more).map(|entry| entry.key.clone());
        if !manner.head_only {
            lines_onto(&mut out, &page, manner.is_http_10);
        }
        drop(page);
        let Some(last) = last else { break };
        output::write(&mut conversation.stream, &out).await?;
        out.clear();
        range = range.after(last);
    }
    if !manner.is_http_10 && !manner.head_only {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    output::write(&mut conversation.stream, &out).await?;
    let took = asked.since.elapsed();
    shared.counters.observe(ClientProtocol::Http, asked.operation, Verdict::Fine, took);
    // Without chunks only the end of the connection marks the end of the lines.
    if manner.is_http_10 { Err(Stop::Dead) } else { Ok(()) }
}

fn page_request(request: &Request, range: &Range) -> Request {
    let mut request = request.clone();
    if let Call::Read(read, _) = &mut request.call {
        *read = Read::Range(range.clone());
    }
    request
}

/// Appends a page as lines, in one chunk.
fn lines_onto(out: &mut Vec<u8>, page: &Page, is_http_10: bool) {
    if page.entries.is_empty() {
        return;
    }
    let mut lines = Vec::new();
    for entry in &page.entries {
        write::entry_onto(&mut lines, entry);
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

async fn broken(
    conversation: &mut NativeConnection,
    error: &Error,
    asked: AnswerOrigin,
) -> Result<(), Stop> {
    let mut line = vec![b'{'];
    errors::error_onto(&mut line, error);
    line.extend_from_slice(b"}\n");
    let mut out = Vec::new();
    if asked.manner.is_http_10 {
        out = line;
    } else {
        let _ = write!(out, "{:x}\r\n", line.len());
        out.append(&mut line);
        out.extend_from_slice(b"\r\n");
    }
    output::write(&mut conversation.stream, &out).await?;
    let took = asked.since.elapsed();
    let verdict = Verdict::Failed(error.kind());
    conversation.shared.counters.observe(ClientProtocol::Http, asked.operation, verdict, took);
    Err(Stop::Dead)
}

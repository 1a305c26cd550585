//! Streams of a range or an index as JSON lines: page by page, as fast as the client reads, in
//! bounded memory.

use super::connection::{ConnectionEnd, NativeConnection};
use super::errors;
use super::json::{index, size, write};
use super::output::{self, AnswerOrigin};
use crate::buffer_budget::{BufferBudget, overloaded};
use crate::counters::{ClientProtocol, Verdict};
use crate::http::answer::EncodeOptions;
use crate::http::date::DateCache;
use crate::http::{AnswerContent, HttpAnswer, StatusCode};
use crate::shared::Shared;
use crate::stages::WaitStage;
use crate::writer;
use base::index::IndexContent;
use base::limits::ANSWER_WRITE_MS_MAX;
use base::request::Call;
use base::{Body, Error, IndexPage, Page, Principal, Read, Reason, Request};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Size of a page in bytes of keys and values; a page holds at least one row.
const PAGE_BYTES: usize = 256 * 1024;
/// Number of rows in a page.
const PAGE_ROWS: usize = 4_096;
/// Number of rows in a page of an index with records, which is bounded in bytes by its node alone.
const PAGE_RECORDS: usize = 256;
/// Memory reserved for a page and its JSON in bytes. A page with a larger row takes more, as long
/// as its client reads it.
const RESERVED_BYTES: usize = 3 * PAGE_BYTES;
/// End of a body in chunks.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// Pause in milliseconds between two attempts to get memory.
const MEMORY_RETRY_MS: u64 = 5;

/// Page of a streamed read.
enum StreamedPage {
    Range(Page),
    Index(Box<IndexPage>),
}

impl StreamedPage {
    /// Returns true if rows may be missing in the page, as the query allows.
    fn is_partial(&self) -> bool {
        matches!(self, StreamedPage::Index(page) if page.is_partial)
    }
}

/// Sends all rows of the read. An error after the first page becomes the last line, and the body
/// then lacks its final chunk. If a page was partial, the last line says so.
pub async fn rows(
    connection: &mut NativeConnection,
    mut request: Request,
    mut origin: AnswerOrigin,
) -> Result<(), ConnectionEnd> {
    let shared = connection.shared.clone();
    let Some(_reserved) = shared.reserve(RESERVED_BYTES) else {
        let text = "too many answers are being streamed: try again later";
        let error = Error::new(Reason::Overloaded, text);
        let verdict = Verdict::Failed(error.kind());
        connection.output.push(&shared, errors::answer(&error), origin, verdict);
        return Ok(());
    };
    bound_pages(&mut request);
    // Wait for earlier requests first: the rows must include their updates.
    connection.flush().await?;
    let (mut out, mut head_is_written, encode_options) = (Vec::new(), false, origin.encode_options);
    let (mut page_budget, mut is_partial) = (BufferBudget::default(), false);
    loop {
        let principal = connection.flow.principal();
        let reading = read_page(&shared, principal, request.clone(), head_is_written);
        let reply = origin.stages.measure(WaitStage::Reply, reading).await;
        let page = match reply.and_then(to_page) {
            Ok((index, page)) => {
                if !head_is_written {
                    let head = (AnswerContent::JsonLines, index);
                    write_head(&shared, &request, head, encode_options, &mut out);
                    head_is_written = true;
                }
                page
            }
            Err(error) if !head_is_written => {
                let verdict = Verdict::Failed(error.kind());
                connection.output.push(&shared, errors::answer(&error), origin, verdict);
                return Ok(());
            }
            Err(error) => return write_error(connection, &error, origin).await,
        };
        is_partial |= page.is_partial();
        let beyond = page_bytes(&page).saturating_sub(RESERVED_BYTES);
        if !wait_for_memory(&shared, &mut page_budget, beyond).await {
            // The rows so far end with whole lines, and the head precedes the error.
            writer::write_bytes(&mut connection.stream, &out).await?;
            return write_error(connection, &overloaded(), origin).await;
        }
        if !encode_options.head_only {
            append_lines(&mut out, &page, encode_options.is_http_10);
        }
        if !advance(&mut request, &page) {
            break;
        }
        drop(page);
        let writing = writer::write_bytes(&mut connection.stream, &out);
        origin.stages.measure(WaitStage::Send, writing).await?;
        out.clear();
        // A page with a large row leaves a large buffer.
        out.shrink_to(RESERVED_BYTES);
        page_budget.release();
    }
    append_end(&mut out, is_partial, encode_options);
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

/// Writes the head of a streamed answer with this content. `index`: index of the first page.
pub(super) fn write_head(
    shared: &Shared,
    request: &Request,
    (content, index): (AnswerContent, base::LogIndex),
    encode_options: EncodeOptions,
    out: &mut Vec<u8>,
) {
    let mut answer = HttpAnswer::new(StatusCode::Ok, content);
    answer.index = Some(index.0);
    answer.master = shared.node.remote_master(&request.bucket);
    let now_ms = shared.clock.unix_ms();
    let mut date = DateCache::new(now_ms);
    answer.encode_head(out, encode_options, date.format_at(now_ms));
}

/// Returns an upper bound of the size of a page as JSON.
fn page_bytes(page: &StreamedPage) -> usize {
    match page {
        StreamedPage::Range(page) => page.entries.iter().map(size::entry_bytes).sum(),
        StreamedPage::Index(page) => page.rows.iter().map(size::index_row_bytes).sum(),
    }
}

/// Waits for memory for so many bytes of a page, as long as a client may take to read one. Returns
/// false if none became free.
pub(super) async fn wait_for_memory(
    shared: &Shared,
    budget: &mut BufferBudget,
    bytes: usize,
) -> bool {
    let deadline = Instant::now() + Duration::from_millis(ANSWER_WRITE_MS_MAX);
    while !budget.try_reserve(bytes, shared) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(Duration::from_millis(MEMORY_RETRY_MS)).await;
    }
    true
}

/// Bounds the pages of a read.
fn bound_pages(request: &mut Request) {
    match &mut request.call {
        Call::Read(Read::Range(range), _) => {
            range.bytes_max = Some(PAGE_BYTES);
            range.rows_max = Some(PAGE_ROWS);
        }
        Call::Read(Read::Index(query), _) => {
            let has_records = query.want == IndexContent::Records;
            query.rows_max = Some(if has_records { PAGE_RECORDS } else { PAGE_ROWS });
        }
        _ => {}
    }
}

/// Returns the page of a reply, with its log index. Errors: `in_doubt` if it has none.
fn to_page(reply: base::Reply) -> Result<(base::LogIndex, StreamedPage), Error> {
    let page = match reply.body {
        Body::Page(page) => StreamedPage::Range(page),
        Body::IndexPage(page) => StreamedPage::Index(page),
        _ => {
            let text = "the answer to a streamed read is no page: nodes differ in their version";
            return Err(Error::new(Reason::InDoubt, text));
        }
    };
    Ok((reply.index, page))
}

/// Makes a request that of the next page. Returns false if this was the last one.
fn advance(request: &mut Request, page: &StreamedPage) -> bool {
    match (&mut request.call, page) {
        (Call::Read(Read::Range(range), _), StreamedPage::Range(page)) if page.more => {
            let Some(last) = page.entries.last() else { return false };
            *range = range.after(last.key.clone());
            true
        }
        (Call::Read(Read::Index(query), _), StreamedPage::Index(page)) => {
            query.after = page.after.clone();
            query.after.is_some()
        }
        _ => false,
    }
}

/// Appends a page as lines, in one chunk.
fn append_lines(out: &mut Vec<u8>, page: &StreamedPage, is_http_10: bool) {
    append_chunk_of(out, is_http_10, |out| match page {
        StreamedPage::Range(page) => append_each(out, &page.entries, write::append_entry),
        StreamedPage::Index(page) => append_each(out, &page.rows, index::append_index_row),
    });
}

/// Appends what `append` appends as one chunk, or as it is for a client that knows no chunks;
/// nothing if that is nothing. The length of the chunk is filled in last, so that its bytes are not
/// copied.
pub(super) fn append_chunk_of(
    out: &mut Vec<u8>,
    is_http_10: bool,
    append: impl FnOnce(&mut Vec<u8>),
) {
    const NO_LENGTH: &[u8] = b"00000000\r\n";
    if is_http_10 {
        return append(out);
    }
    let start = out.len();
    out.extend_from_slice(NO_LENGTH);
    let data_start = out.len();
    append(out);
    if out.len() == data_start {
        // A chunk without bytes would end the body.
        return out.truncate(start);
    }
    let length = format!("{:08x}\r\n", out.len() - data_start);
    out[start..data_start].copy_from_slice(length.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn append_each<T>(out: &mut Vec<u8>, rows: &[T], append: impl Fn(&mut Vec<u8>, &T)) {
    for row in rows {
        append(out, row);
        out.push(b'\n');
    }
}

/// Appends the end of the body. Rows alone don't show that others may be missing: a line does.
fn append_end(out: &mut Vec<u8>, is_partial: bool, encode_options: EncodeOptions) {
    if encode_options.head_only {
        return;
    }
    if is_partial {
        append_chunk_of(out, encode_options.is_http_10, |out| {
            out.extend_from_slice(b"{\"partial\":true}\n");
        });
    }
    if !encode_options.is_http_10 {
        out.extend_from_slice(LAST_CHUNK);
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
    append_chunk_of(&mut out, origin.encode_options.is_http_10, |out| {
        out.extend_from_slice(&line);
    });
    writer::write_bytes(&mut connection.stream, &out).await?;
    let elapsed = origin.parsed_at.elapsed();
    let verdict = Verdict::Failed(error.kind());
    connection.shared.counters.observe(ClientProtocol::Http, origin.operation, verdict, elapsed);
    Err(ConnectionEnd::Disconnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(is_partial: bool, head_only: bool, is_http_10: bool) -> String {
        let mut out = b"rows".to_vec();
        append_end(&mut out, is_partial, EncodeOptions { keep_alive: true, head_only, is_http_10 });
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn last_line_of_a_stream_says_that_rows_may_be_missing() {
        assert_eq!(end(false, false, false), "rows0\r\n\r\n");
        assert_eq!(end(true, false, false), "rows00000011\r\n{\"partial\":true}\n\r\n0\r\n\r\n");
        assert_eq!(end(false, false, true), "rows");
        assert_eq!(end(true, false, true), "rows{\"partial\":true}\n");
        assert_eq!(end(true, true, false), "rows", "HEAD has no body");
    }

    #[test]
    fn page_is_partial_if_its_index_page_is() {
        for is_partial in [false, true] {
            let page = IndexPage { is_partial, ..IndexPage::default() };
            assert_eq!(StreamedPage::Index(Box::new(page)).is_partial(), is_partial);
        }
        let page = Page { entries: Vec::new(), more: false };
        assert!(!StreamedPage::Range(page).is_partial());
    }
}

//! Feeds of changes as the work of a measure: one reader reads a long feed from its start, as a
//! stream and page by page; or many readers wait at its end while nothing changes.
//!
//! `load_generator::feeds` has the readers. A feed that returned fewer events than were written has
//! no result, and readers that waited must be told of a put at the end.

use super::file::{Server, config};
use super::process::own_cpu_seconds;
use super::results::Run;
use super::server::{StartedServer, call_once};
use super::work::Placeholders;
use load_generator::config::{HttpConfig, Item, Items, duration_of};
use load_generator::drivers::Call;
use load_generator::error::BenchError;
use load_generator::feeds::{
    FeedReading, WatchForm, Watchers, read_pages, read_stream, wait_until_readable,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Name of the figure: number of events of the feed.
pub const EVENTS: &str = "events";
/// Names of the figures of a reader of the stream: events a second, the CPU time of the server and
/// of the reader for one event, bytes of one event.
pub const STREAM: [&str; 4] = [
    "streamed events/s",
    "server us/streamed event",
    "reader us/streamed event",
    "bytes/streamed event",
];
/// Names of the figures of a reader of pages, in the same order.
pub const PAGES: [&str; 4] =
    ["paged events/s", "server us/paged event", "reader us/paged event", "bytes/paged event"];
/// Name of the figure: the server's CPU time without readers.
pub const ALONE: &str = "% of a core alone";
/// Names of the figures of streams that wait: the server's CPU time, and the time from a put until
/// the last one was told.
pub const WATCHED_BY_STREAMS: [&str; 2] = ["% of a core, streams", "told ms, streams"];
/// Names of the figures of pages that wait, in the same order.
pub const WATCHED_BY_PAGES: [&str; 2] = ["% of a core, pages", "told ms, pages"];

/// Longest time until a feed can be read, and until all that wait are told of a put.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Least time for which an idle server is looked at, also in a quick run: CPU time is counted in
/// ticks of 10 ms, which are 0.17 % of a core then.
const WATCH_TIME_MIN: Duration = Duration::from_secs(6);
/// Key of the put of which those that wait are told.
const WATCHED_KEY: &[u8] = b"watched";

/// Work with a feed.
pub struct FeedWork {
    kind: FeedWorkKind,
    /// Time before the feed is used, so that what its load has caused comes to rest.
    wait: Duration,
}

enum FeedWorkKind {
    /// One reader reads from the start.
    Read {
        /// Number of events that the feed has at least.
        events: u64,
        /// True if events have their records.
        values: bool,
    },
    /// Readers wait for this time.
    Watch(Duration),
}

impl FeedWork {
    /// Reads `{ read = 500000, values = true, wait = "3s" }` or `{ watch = "30s", wait = "3s" }`.
    /// `share`: share of the time to watch that a run takes, at least 6 s of it.
    pub fn read(item: &Item, share: f64) -> Result<FeedWork, String> {
        let mut items = item.table()?;
        let time = |item: &Item| duration_of(item, 1.0);
        let events = |item: &Item| item.integer(1, 1_000_000_000).map(Some);
        let read = items.read("read", None, events)?;
        let watch = items.read("watch", None, |item| time(item).map(Some))?;
        let longest = Watchers::longest_wait(WatchForm::Pages).unwrap_or(Duration::MAX);
        let wait = items.read("wait", Duration::ZERO, time)?;
        let kind = match (read, watch) {
            (Some(events), None) => {
                let values = items.read("values", false, Item::boolean)?;
                FeedWorkKind::Read { events, values }
            }
            (None, Some(time)) if time.is_zero() || time + wait >= longest => {
                let most = longest.as_secs();
                let text = format!("wants `watch` and `wait` of together less than {most} s");
                return Err(item.error(text));
            }
            (None, Some(time)) => {
                FeedWorkKind::Watch(time.mul_f64(share).max(WATCH_TIME_MIN.min(time)))
            }
            _ => return Err(item.error("wants `read`, a number of events, or `watch`, a time")),
        };
        items.finish()?;
        Ok(FeedWork { kind, wait })
    }

    /// Returns true if readers wait.
    pub fn is_watch(&self) -> bool {
        matches!(self.kind, FeedWorkKind::Watch(_))
    }
}

/// Returns an error if the bucket of a server's driver can't have a feed.
pub fn check_feed(name: &str, server: &Server, placeholders: &Placeholders) -> Result<(), String> {
    let config = config(&Items::default(), server, None, placeholders, None)?;
    match config.driver.http() {
        Some(_) => Ok(()),
        None => Err(format!(
            "the server `{name}` needs the driver `resp` or `http` for `feed`: its bucket is read \
             over HTTP at the same address"
        )),
    }
}

/// Reads the feed, or waits for it. `clients`: number of readers that wait. Errors: the feed can't
/// be read, or is not whole.
pub fn run(work: &FeedWork, started: &StartedServer, clients: usize) -> Result<Run, String> {
    let http = started.config.driver.http().ok_or("the driver has no feed")?;
    std::thread::sleep(work.wait);
    let figures = wait_until_readable(&http, ANSWER_TIMEOUT).and_then(|()| match work.kind {
        FeedWorkKind::Read { events, values } => read(&http, started, events, values),
        FeedWorkKind::Watch(time) => {
            let watch = FeedWatch { http: &http, started, clients, wait: work.wait, time };
            watch.run()
        }
    });
    let figures = figures.map_err(|error| error.text)?;
    let throughput = figures.get(STREAM[0]).copied().unwrap_or_default();
    Ok(Run { throughput, figures, ..Run::default() })
}

/// Reads the feed as a stream, then page by page.
fn read(
    http: &HttpConfig,
    started: &StartedServer,
    events: u64,
    values: bool,
) -> Result<BTreeMap<String, f64>, BenchError> {
    let mut figures = BTreeMap::new();
    for (names, is_stream) in [(STREAM, true), (PAGES, false)] {
        let before = (started.cpu_seconds(), own_cpu_seconds());
        let reading =
            if is_stream { read_stream(http, values)? } else { read_pages(http, values)? };
        let server_s = started.cpu_seconds() - before.0;
        let reader_s = own_cpu_seconds() - before.1;
        if reading.events < events {
            let text = format!("the feed returned {} of {events} events", reading.events);
            return Err(text.into());
        }
        let found = reading_figures(&reading, server_s, reader_s);
        figures.extend(names.map(String::from).into_iter().zip(found));
        figures.insert(EVENTS.into(), reading.events as f64);
    }
    Ok(figures)
}

/// Returns events a second, microseconds of the server and of the reader for one event, and bytes
/// of one event.
fn reading_figures(reading: &FeedReading, server_s: f64, reader_s: f64) -> [f64; 4] {
    let events = reading.events.max(1) as f64;
    [
        reading.events as f64 / reading.elapsed.as_secs_f64().max(1e-9),
        server_s * 1e6 / events,
        reader_s * 1e6 / events,
        reading.bytes as f64 / events,
    ]
}

/// Readers that wait for changes of an idle server.
struct FeedWatch<'a> {
    http: &'a HttpConfig,
    started: &'a StartedServer,
    clients: usize,
    wait: Duration,
    time: Duration,
}

impl FeedWatch<'_> {
    /// Looks at the server alone, then with streams that wait, then with pages that wait.
    fn run(&self) -> Result<BTreeMap<String, f64>, BenchError> {
        let mut figures = BTreeMap::from([(ALONE.to_string(), self.core_percent())]);
        for (names, form) in
            [(WATCHED_BY_STREAMS, WatchForm::Streams), (WATCHED_BY_PAGES, WatchForm::Pages)]
        {
            let mut watchers = Watchers::start(self.http, form, self.clients)?;
            std::thread::sleep(self.wait);
            let percent = self.core_percent();
            watchers.check()?;
            let begin = Instant::now();
            let put = Call::Put(WATCHED_KEY, b"now");
            call_once(&*self.started.target, &put, "put that readers wait for")?;
            watchers.wait_for_put(ANSWER_TIMEOUT)?;
            let told_ms = begin.elapsed().as_secs_f64() * 1000.0;
            figures.extend(names.map(String::from).into_iter().zip([percent, told_ms]));
            // The server notices the ends of all connections before it is looked at again.
            drop(watchers);
            std::thread::sleep(self.wait);
        }
        Ok(figures)
    }

    /// Returns the CPU time that the server takes while nothing is asked of it, in percent of a
    /// core.
    fn core_percent(&self) -> f64 {
        let (before, begin) = (self.started.cpu_seconds(), Instant::now());
        std::thread::sleep(self.time);
        let seconds = self.started.cpu_seconds() - before;
        seconds / begin.elapsed().as_secs_f64().max(1e-9) * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_reading_are_of_one_event() {
        let elapsed = Duration::from_secs(4);
        let reading = FeedReading { events: 1_000_000, bytes: 60_000_000, elapsed };
        assert_eq!(reading_figures(&reading, 3.0, 0.5), [250_000.0, 3.0, 0.5, 60.0]);
        let nothing = FeedReading { events: 0, bytes: 0, elapsed: Duration::ZERO };
        assert!(reading_figures(&nothing, 0.0, 0.0).iter().all(|figure| figure.is_finite()));
    }
}

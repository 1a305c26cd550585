//! Experiment of coupons as the work of a measure: 100,000 documents are loaded with their index in
//! place; the query `redeemed_count < 50` is the first after a start, and is repeated; many clients
//! query a few keys; or the indexed member of every document is updated, again and again, and both
//! queries are repeated.
//!
//! `load_generator::coupons` has the load and the queries, and compares every row of every answer
//! with the documents that were written: a run with a wrong answer fails.

use super::file::{Server, config};
use super::progress::CountProgress;
use super::published_experiments::PublishedExperiments;
use super::results::Run;
use super::server::StartedServer;
use super::work::Placeholders;
use crate::median::median;
use load_generator::config::{Config, DriverConfig, Item, Items, duration_of};
use load_generator::coupons::{
    ExpectedRows, KeyQueries, KeyQueryResult, QueryFailure, WriteRounds, query_documents,
    query_keys, wait_until_served, write_rounds,
};
use load_generator::drivers::{self, Driver, Target};
use load_generator::error::BenchError;
use load_generator::generators::{CouponSet, DOCUMENTS_MAX};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Name of the figure: seconds until all documents are loaded and indexed.
pub const LOAD: &str = "load s";
/// Name of the figure: the server's CPU time for one document of the load.
pub const LOAD_CPU: &str = "server us/document";
/// Name of the figure: time of the first query after a start.
pub const FIRST_QUERY: &str = "first query ms";
/// Name of the figure: median time of the queries that follow.
pub const QUERY: &str = "query ms";
/// Name of the figure: their 99th percentile.
pub const QUERY_P99: &str = "query p99 ms";
/// Name of the figure: queries of ten keys a second.
pub const KEY_QUERIES: &str = "10-key queries/s";
/// Name of the figure: rows that the query returns.
pub const ROWS: &str = "rows";
/// Name of the figure: number of updates of the indexed member.
pub const UPDATES: &str = "updates";
/// Name of the figure: updates a second.
pub const UPDATE_RATE: &str = "updates/s";
/// Name of the figure: the server's CPU time for one update.
pub const UPDATE_CPU: &str = "server us/update";
/// Name of the figure: median time of the query before the updates.
pub const BEFORE: &str = "query ms before";
/// Name of the figure: its median right after the last update.
pub const RIGHT_AFTER: &str = "query ms right after";
/// Name of the figure: its median once the server has settled.
pub const SETTLED: &str = "query ms settled";
/// Name of the figure: the settled query divided by that before the updates.
pub const GROWTH: &str = "times the first";
/// Name of the figure: queries of ten keys a second before the updates.
pub const KEY_QUERIES_BEFORE: &str = "10-key queries/s before";
/// Name of the figure: queries of ten keys a second once the server has settled.
pub const KEY_QUERIES_SETTLED: &str = "10-key queries/s settled";
/// Name of the figure: the time of a settled query of ten keys, divided by that before the updates.
pub const KEY_GROWTH: &str = "10-key times the first";

/// Longest time until a server reads a document after its start, and until a query that is refused
/// meanwhile is answered.
const SERVED_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time of one query: a view is built by its first one.
const QUERY_TIMEOUT: Duration = Duration::from_secs(900);
/// Pause before a query that was refused is repeated.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// Time after which queries are not repeated any more, once there are enough for a median.
const QUERIES_TIME: Duration = Duration::from_secs(10);
/// Least number of repeated queries.
const QUERIES_MIN: usize = 5;
/// Rows of the queries of many clients.
const KEY_QUERY_ROWS: usize = 10;
/// Part of the queries of many clients that is not counted.
const KEY_QUERY_WARM_UP: Duration = Duration::from_secs(1);

/// The experiment's settings.
pub struct CouponWork {
    documents: u32,
    /// Rounds of updates, each of all documents. 0: the load and the queries.
    rounds: u32,
    /// Number of writes that each client of RESP has in flight.
    pipeline: usize,
    /// Number of repeated queries.
    queries: usize,
    key_query_time: Duration,
    /// Longest wait until the server writes nothing any more, before and after updates.
    settle: Duration,
    published: PublishedExperiments,
}

impl CouponWork {
    /// Reads `{ documents = 100000, updates = 5000000, ... }`. `share`: share of the updates that a
    /// run does, in whole rounds over all documents, at least one; and of the time to settle.
    pub fn read(item: &Item, share: f64) -> Result<CouponWork, String> {
        let mut items = item.table()?;
        let count = |max| move |item: &Item| item.integer(1, max).map(|number| number as usize);
        let seconds = Duration::from_secs;
        let time = |item: &Item| duration_of(item, 1.0);
        let documents =
            items.read("documents", 100_000, |item| item.integer(1, DOCUMENTS_MAX.into()))?;
        let updates = items.read("updates", 0, |item| item.integer(0, 1_000_000_000))?;
        let rounds = (updates as f64 * share / documents as f64).round();
        let work = CouponWork {
            documents: documents as u32,
            rounds: if updates == 0 { 0 } else { rounds.max(1.0) as u32 },
            pipeline: items.read("pipeline", 16, count(1_000))?,
            queries: items.read("queries", 100, count(10_000))?.max(QUERIES_MIN),
            key_query_time: items.read("key_query_time", seconds(5), time)?,
            settle: items.read("settle", seconds(120), time)?.mul_f64(share),
            published: items.read(
                "published",
                PublishedExperiments::default(),
                PublishedExperiments::read,
            )?,
        };
        items.finish()?;
        match work.key_query_time.is_zero() {
            true => Err(item.error("wants a `key_query_time` above 0")),
            false => Ok(work),
        }
    }

    /// Returns true if documents are updated.
    pub fn has_updates(&self) -> bool {
        self.rounds > 0
    }

    /// Returns the results that others published.
    pub fn published(&self) -> &PublishedExperiments {
        &self.published
    }
}

/// Returns the settings of queries of a server's index.
fn query_config(server: &Server, placeholders: &Placeholders) -> Result<Config, String> {
    let driver = server.queries.clone().unwrap_or_else(|| server.driver.clone());
    let server = Server { driver, ..server.clone() };
    config(&Items::default(), &server, None, placeholders, None)
}

/// Returns an error if a server's driver can't query an index.
pub fn check_queries(
    name: &str,
    server: &Server,
    placeholders: &Placeholders,
) -> Result<(), String> {
    match query_config(server, placeholders)?.driver.has_index() {
        true => Ok(()),
        false => Err(format!(
            "the server `{name}` needs an index for `coupons`: the driver `resp` with \
             `resp_index`, or `couchdb`, as its `driver` or its `queries`"
        )),
    }
}

/// Loads the documents and does the rest of the experiment. Errors: a wrong answer, or none.
pub fn run(
    work: &CouponWork,
    server: &Server,
    started: &mut StartedServer,
    clients: usize,
) -> Result<Run, String> {
    let experiment = Experiment { work, server, clients, coupons: CouponSet::new(work.documents) };
    let result = match work.has_updates() {
        false => experiment.run_queries(started),
        true => experiment.run_updates(started),
    };
    result.map_err(|error| error.text)
}

/// One run of the experiment on a server.
struct Experiment<'a> {
    work: &'a CouponWork,
    server: &'a Server,
    clients: usize,
    coupons: CouponSet,
}

/// Connection of one client that queries, and where it goes.
struct QueryConnection {
    target: Box<dyn Target>,
    driver: Box<dyn Driver>,
}

/// Time and cost of rounds of writes.
struct WriteCost {
    seconds: f64,
    documents: f64,
    server_us: f64,
    /// Number of calls that failed and were repeated.
    failed: u64,
}

impl Experiment<'_> {
    fn run_queries(&self, started: &mut StartedServer) -> Result<Run, BenchError> {
        let load = self.write(started, 0, 1)?;
        started.start_again()?;
        let QueryConnection { target, mut driver } = self.connect(started)?;
        let expected = ExpectedRows::new(&self.coupons, 0);
        let first_ms = first_query(&mut *driver, &expected)?;
        let times_ms = self.query_repeatedly(&mut *driver, &expected)?;
        let keys = self.query_keys(&*target, &expected)?;
        let figures = [
            (LOAD, load.seconds),
            (LOAD_CPU, load.server_us / load.documents),
            (FIRST_QUERY, first_ms),
            (QUERY, median(times_ms.iter().copied())),
            (QUERY_P99, percentile_99(times_ms)),
            (KEY_QUERIES, keys.per_second),
            (ROWS, expected.low().len() as f64),
        ];
        Ok(Run {
            throughput: keys.per_second,
            latency_us: keys.latency_us,
            failed: load.failed,
            figures: named(&figures),
            ..Run::default()
        })
    }

    fn run_updates(&self, started: &mut StartedServer) -> Result<Run, BenchError> {
        let load = self.write(started, 0, 1)?;
        let before = self.settled_query(started, 0)?;
        let keys_before = self.key_queries(started, 0)?;
        let updates = self.write(started, 1, self.work.rounds)?;
        let right_after = self.query(started, self.work.rounds)?;
        let settled = self.settled_query(started, self.work.rounds)?;
        let keys_settled = self.key_queries(started, self.work.rounds)?;
        let rate = updates.documents / updates.seconds.max(1e-9);
        let figures = [
            (UPDATES, updates.documents),
            (UPDATE_RATE, rate),
            (UPDATE_CPU, updates.server_us / updates.documents),
            (BEFORE, before),
            (RIGHT_AFTER, right_after),
            (SETTLED, settled),
            (GROWTH, settled / before.max(1e-9)),
            (KEY_QUERIES_BEFORE, keys_before),
            (KEY_QUERIES_SETTLED, keys_settled),
            (KEY_GROWTH, keys_before / keys_settled.max(1e-9)),
            (ROWS, self.coupons.selected().into()),
        ];
        let failed = load.failed + updates.failed;
        Ok(Run { throughput: rate, failed, figures: named(&figures), ..Run::default() })
    }

    /// Writes all documents in each of some rounds.
    fn write(
        &self,
        started: &StartedServer,
        first: u32,
        count: u32,
    ) -> Result<WriteCost, BenchError> {
        // Riak's clients and CouchDB's send a request when the last one was answered.
        let pipeline = match started.config.driver {
            DriverConfig::Resp(_) => self.work.pipeline,
            _ => 1,
        };
        let rounds = WriteRounds { clients: self.clients, pipeline, first, count };
        let all = u64::from(self.work.documents) * u64::from(count);
        let mut progress = CountProgress::new(if first == 0 { "load" } else { "updates" }, all);
        let before = started.cpu_seconds();
        let observe = &mut |written| progress.observe(written);
        let result = write_rounds(&*started.target, &self.coupons, &rounds, observe)?;
        Ok(WriteCost {
            seconds: result.elapsed.as_secs_f64(),
            documents: result.documents as f64,
            server_us: (started.cpu_seconds() - before) * 1e6,
            failed: result.repeated,
        })
    }

    /// Connects to where queries go, the process that leads if there is one, and waits until it
    /// reads documents.
    fn connect(&self, started: &mut StartedServer) -> Result<QueryConnection, BenchError> {
        if let Some(metric) = &self.server.leader_metric {
            started.find_leader(metric)?;
        }
        let config = query_config(self.server, &started.placeholders)?;
        let target = drivers::prepare(&config.driver)?;
        let mut driver = target.driver(1)?;
        wait_until_served(&mut *driver, SERVED_TIMEOUT)?;
        Ok(QueryConnection { target, driver })
    }

    /// Returns the median time of the query after a round, milliseconds.
    fn query(&self, started: &mut StartedServer, round: u32) -> Result<f64, BenchError> {
        let mut connection = self.connect(started)?;
        let expected = ExpectedRows::new(&self.coupons, round);
        let times_ms = self.query_repeatedly(&mut *connection.driver, &expected)?;
        Ok(median(times_ms.into_iter()))
    }

    fn settled_query(&self, started: &mut StartedServer, round: u32) -> Result<f64, BenchError> {
        started.processes.wait_until_settled(self.work.settle);
        self.query(started, round)
    }

    /// Returns the queries of a few keys a second, after a round.
    fn key_queries(&self, started: &mut StartedServer, round: u32) -> Result<f64, BenchError> {
        let connection = self.connect(started)?;
        let expected = ExpectedRows::new(&self.coupons, round);
        Ok(self.query_keys(&*connection.target, &expected)?.per_second)
    }

    /// Queries a few keys by many clients.
    fn query_keys(
        &self,
        target: &dyn Target,
        expected: &ExpectedRows<'_>,
    ) -> Result<KeyQueryResult, BenchError> {
        let settings = KeyQueries {
            clients: self.clients,
            rows: KEY_QUERY_ROWS,
            warm_up: KEY_QUERY_WARM_UP.min(self.work.key_query_time),
            duration: self.work.key_query_time,
        };
        query_keys(target, expected, &settings)
    }

    /// Returns the times of the query, repeated by one client, milliseconds.
    fn query_repeatedly(
        &self,
        driver: &mut dyn Driver,
        expected: &ExpectedRows<'_>,
    ) -> Result<Vec<f64>, BenchError> {
        let (begin, mut times_ms) = (Instant::now(), Vec::new());
        while times_ms.len() < self.work.queries
            && (times_ms.len() < QUERIES_MIN || begin.elapsed() < QUERIES_TIME)
        {
            let time = query_documents(driver, expected, QUERY_TIMEOUT)?;
            times_ms.push(time.as_secs_f64() * 1000.0);
        }
        Ok(times_ms)
    }
}

/// Returns the time of the first query that is answered, milliseconds. A server that has just
/// started may refuse queries for a moment, while its nodes find each other.
fn first_query(driver: &mut dyn Driver, expected: &ExpectedRows<'_>) -> Result<f64, BenchError> {
    let begin = Instant::now();
    loop {
        match query_documents(driver, expected, QUERY_TIMEOUT) {
            Ok(time) => return Ok(time.as_secs_f64() * 1000.0),
            Err(QueryFailure::Refused(_)) if begin.elapsed() < SERVED_TIMEOUT => {
                std::thread::sleep(REFUSED_PAUSE);
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

fn named(figures: &[(&str, f64)]) -> BTreeMap<String, f64> {
    figures.iter().map(|(name, value)| (name.to_string(), *value)).collect()
}

/// Returns the 99th percentile of some numbers: the least one that 99 of 100 do not exceed.
fn percentile_99(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let at = (numbers.len() * 99).div_ceil(100).max(1) - 1;
    numbers.get(at).copied().unwrap_or(0.0)
}

//! Tests of the load's measurements: schedules, coordinated omission, merged histograms, errors.

use super::*;
use crate::config::{Items, Operation, Schedule};
use crate::drivers::{Answer, Call, Driver, Failure, RespCall, Sink};
use crate::generators::SeededRng;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A server in this thread that answers by a rule.
#[derive(Clone)]
struct Server(Arc<Rule>);

/// Rule of a test server: arguments are the number of the call and its text.
type RuleFunction = dyn Fn(usize, &str) -> RuleResult + Send + Sync;

struct Rule {
    rule: Box<RuleFunction>,
    requests: Mutex<Vec<String>>,
}

struct ServerDriver {
    server: Server,
    pending: VecDeque<(usize, String)>,
}

/// Delay and result of a call.
type RuleResult = (Duration, std::result::Result<Option<Vec<u8>>, Failure>);

impl Server {
    fn run(&self, settings: &str) -> Collected {
        let items = Items::parse("a.toml", &format!("driver = 'null'\n{settings}"));
        let config = Config::read(items.expect("whole")).expect("whole");
        run(&config, self, &AtomicBool::new(false), &mut NullObserver).expect("ran")
    }
}

impl Target for Server {
    fn version(&self) -> String {
        "rule".into()
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        if operation == Operation::Range { Err("no ranges".into()) } else { Ok(()) }
    }

    fn driver(&self, _clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        Ok(Box::new(ServerDriver { server: self.clone(), pending: VecDeque::new() }))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Driver for ServerDriver {
    fn begin(&mut self, client: usize, call: &Call<'_>) {
        let text = match call {
            Call::Get(key) => format!("get {}", String::from_utf8_lossy(key)),
            Call::Put(key, _) => format!("put {}", String::from_utf8_lossy(key)),
            // The answer must be a value, as for a get.
            Call::Resp(RespCall::First(queue)) => format!("get {}", String::from_utf8_lossy(queue)),
            Call::Resp(RespCall::Remove { key, .. }) => {
                format!("remove {}", String::from_utf8_lossy(key))
            }
            other => format!("{other:?}"),
        };
        self.pending.push_back((client, text));
    }

    fn send(&mut self, _client: usize) {}

    fn wait(&mut self, timeout: Duration, sink: Sink<'_>) {
        let Some((client, text)) = self.pending.pop_front() else {
            return std::thread::sleep(timeout.min(Duration::from_millis(5)));
        };
        let number = {
            let mut requests = self.server.0.requests.lock().expect("no panic while locked");
            requests.push(text.clone());
            requests.len()
        };
        let (delay, answer) = (self.server.0.rule)(number, &text);
        std::thread::sleep(delay);
        let answer = match &answer {
            Ok(value) if text.starts_with("get") => Ok(Answer::Value(value.as_deref())),
            Ok(_) => Ok(Answer::Done),
            Err(failure) => Err(failure.clone()),
        };
        sink(client, Instant::now(), answer);
    }

    fn forget(&mut self, client: usize) {
        self.pending.retain(|(other, _)| *other != client);
    }
}

fn rule(rule: impl Fn(usize, &str) -> RuleResult + Send + Sync + 'static) -> Server {
    Server(Arc::new(Rule { rule: Box::new(rule), requests: Mutex::new(Vec::new()) }))
}

fn absent_row() -> RuleResult {
    (Duration::ZERO, Ok(None))
}

#[test]
fn fixed_schedule_interleaves_threads_at_equal_gaps() {
    let begin = Instant::now();
    let mut all = Vec::new();
    for thread in 0..4 {
        let rng = SeededRng::new(1, 1);
        let mut starts = schedule::Starts::new(Schedule::Fixed, 1000.0, thread, 4, rng, begin);
        for _ in 0..250 {
            all.push((starts.due() - begin).as_nanos() as f64 / 1e6);
            starts.advance();
        }
    }
    all.sort_by(f64::total_cmp);
    for (place, at) in all.iter().enumerate() {
        assert!((at - place as f64).abs() < 0.001, "{place}: {at}");
    }
}

#[test]
fn poisson_schedule_has_the_configured_rate_and_its_variance() {
    let begin = Instant::now();
    let rng = SeededRng::new(7, 7);
    let mut starts = schedule::Starts::new(Schedule::Poisson, 1000.0, 0, 1, rng, begin);
    let mut counts = vec![0.0f64; 1000];
    loop {
        let second = (starts.due() - begin).as_secs_f64() * 10.0;
        if second >= 1000.0 {
            break;
        }
        counts[second as usize] += 1.0;
        starts.advance();
    }
    let mean = counts.iter().sum::<f64>() / 1000.0;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 1000.0;
    assert!((mean - 100.0).abs() < 2.0, "{mean}");
    assert!((variance / mean - 1.0).abs() < 0.15, "{variance} {mean}");
}

#[test]
fn open_loop_latency_includes_waiting_during_a_server_stall() {
    // The server stalls once; operations due meanwhile have waited, though each is served without
    // delay.
    let stalled = rule(|number, _| match number {
        20 => (Duration::from_millis(300), Ok(None)),
        _ => absent_row(),
    });
    let load = "operations = [['put', 1]]\nduration = '800ms'\nconcurrent = 1\n";
    let open = stalled.run(&format!("{load}mode = ['rate', 200]\nschedule = 'fixed'"));
    let put = &open.operations[0];
    assert_eq!(put.ok + put.late + open.unstarted, 160);
    let waited = put.latency.count_between(100_000_000, u64::MAX) + open.unstarted;
    assert!(waited >= 30, "{waited} of the about 40 that waited longer than 100 ms");
    let service = put.service.as_ref().expect("open");
    assert!(service.count_between(100_000_000, u64::MAX) < waited);
    assert!(put.errors.is_empty());
    assert_eq!(put.latency.len(), put.ok + put.late);
}

#[test]
fn open_loop_latency_over_tcp_includes_waiting_during_a_stall() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let server = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let (mut first, _) = listener.accept().expect("connected");
        let _ = first.read(&mut buffer).expect("asked");
        first.write_all(b"$0\r\n\r\n").expect("told");
        let (mut stream, _) = listener.accept().expect("connected");
        let mut requests = 0;
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            for _ in buffer[..bytes].iter().filter(|byte| **byte == b'*') {
                requests += 1;
                if requests == 20 {
                    std::thread::sleep(Duration::from_millis(300));
                }
                stream.write_all(b"$-1\r\n").expect("told");
            }
        }
        requests
    });
    let text = format!(
        "driver = 'resp'\nresp_address = '{address}'\noperations = [['get', 1]]\nconcurrent = 1\n\
         pipeline = 200\nduration = '800ms'\nmode = ['rate', 200]\nschedule = 'fixed'"
    );
    let config = Config::read(Items::parse("a.toml", &text).expect("whole")).expect("whole");
    let target = crate::drivers::prepare(&config.driver).expect("found");
    let run = run(&config, &*target, &AtomicBool::new(false), &mut NullObserver).expect("ran");
    let get = &run.operations[0];
    assert_eq!(server.join().expect("served"), get.latency.len());
    let answered = get.ok + get.late;
    assert_eq!((get.missing, answered + run.unstarted), (answered, 160));
    // 60 were due in the 300 ms; 40 of them waited for at least 100 ms of it.
    let waited = get.latency.count_between(100_000_000, u64::MAX) + run.unstarted;
    assert!(waited >= 30, "{waited}");
}

#[test]
fn errors_are_counted_by_kind_and_excluded_from_latencies() {
    let every_third = rule(|number, _| match number % 3 {
        0 => (Duration::from_millis(2), Err(Failure::refused("busy"))),
        _ => absent_row(),
    });
    let run = every_third.run(
        "operations = [['put', 1]]\nduration = '10s'\nconcurrent = 3\n\
         key_generator = ['partitioned_sequential_int', 30]",
    );
    let put = &run.operations[0];
    assert_eq!((put.ok, put.errors.clone()), (20, [("busy".to_string(), 10)].into()));
    assert_eq!((put.latency.len(), put.failure.len()), (20, 10));
    assert!(put.failure.min() >= 2_000_000);
}

#[test]
fn update_is_a_get_and_put_of_one_key_counted_as_one_operation() {
    let server = rule(|_, _| absent_row());
    let run = server.run(
        "operations = [['update', 1]]\nduration = '10s'\nconcurrent = 1\n\
         key_generator = ['sequential_int', 3]",
    );
    let requests = server.0.requests.lock().expect("whole").clone();
    assert_eq!(requests, ["get 0", "put 0", "get 1", "put 1", "get 2", "put 2"]);
    assert_eq!((run.ok(), run.operations[0].latency.len()), (3, 3));
}

#[test]
fn pop_removes_the_first_entry_and_empty_queue_counts_as_missing() {
    let server = rule(|number, text| match (number, text) {
        (1, "get queue:") => (Duration::ZERO, Ok(Some(b"queue:7".to_vec()))),
        _ => absent_row(),
    });
    let run = server.run(
        "operations = [['pop', 1]]\nduration = '10s'\nconcurrent = 1\nverify = true\n\
         value_generator = ['fixed_bin', 100]\nkey_generator = ['sequential_int', 2]",
    );
    let requests = server.0.requests.lock().expect("whole").clone();
    assert_eq!(requests, ["get queue:", "remove queue:7", "get queue:"]);
    let pop = &run.operations[0];
    assert_eq!((pop.ok, pop.missing, pop.errors.len(), pop.latency.len()), (2, 1, 0, 2));
}

#[test]
fn values_of_another_key_are_errors_and_absent_ones_are_missing() {
    let mut foreign = Vec::new();
    crate::generators::seal(b"0", &[0; 100], 100, &mut foreign);
    let server = rule(move |_, text| match text {
        "get 0" | "get 1" => (Duration::ZERO, Ok(Some(foreign.clone()))),
        _ => absent_row(),
    });
    let settings = "duration = '10s'\nconcurrent = 1\nverify = true\n\
                    key_generator = ['sequential_int', 3]\n";
    let run = server.run(&format!("{settings}operations = [['get', 1]]"));
    let get = &run.operations[0];
    assert_eq!((get.ok, get.missing), (2, 1));
    assert_eq!(get.errors, [("wrong_value".to_string(), 1)].into());
    let run = server.run(&format!("{settings}operations = [['get_existing', 1]]"));
    let kinds: Vec<_> = run.operations[0].errors.keys().cloned().collect();
    assert_eq!(kinds, ["not_found", "wrong_value"]);
}

#[test]
fn totals_sum_threads_and_windows_and_exclude_the_warm_up() {
    struct Rows(Vec<(RunPart, u64)>);
    impl RunObserver for Rows {
        fn row(&mut self, row: &ReportRow) -> Result<(), String> {
            self.0.push((row.part, row.ok()));
            Ok(())
        }
    }
    let text = "driver = 'null'\nthreads = 3\nconcurrent = 7\nduration = '400ms'\n\
                warm_up = '150ms'\nreport_interval = '100ms'\npipeline = 4";
    let config = Config::read(Items::parse("a.toml", text).expect("whole")).expect("whole");
    let target = crate::drivers::prepare(&config.driver).expect("nobody");
    let mut rows = Rows(Vec::new());
    let run = run(&config, &*target, &AtomicBool::new(false), &mut rows).expect("ran");
    let parts: Vec<_> = rows.0.iter().map(|(part, _)| *part).collect();
    assert_eq!(parts, [vec![RunPart::WarmUp; 2], vec![RunPart::Measured; 4]].concat());
    let measured = rows.0.iter().filter(|(part, _)| *part == RunPart::Measured);
    assert_eq!(measured.map(|(_, ok)| ok).sum::<u64>(), run.ok());
    let samples: u64 = run.operations.iter().map(|operation| operation.latency.len()).sum();
    let late: u64 = run.operations.iter().map(|operation| operation.late).sum();
    assert_eq!(samples, run.ok() + late);
    assert!((run.seconds - 0.4).abs() < 1e-9);
}

#[test]
fn operation_unsupported_by_the_driver_fails_before_the_run() {
    let server = rule(|_, _| absent_row());
    let items = Items::parse("a.toml", "driver = 'null'\noperations = [['range', 1]]");
    let config = Config::read(items.expect("whole")).expect("whole");
    let run = run(&config, &server, &AtomicBool::new(false), &mut NullObserver);
    assert_eq!(run.expect_err("refused"), "no ranges".into());
}

#[test]
fn shutdown_on_error_ends_the_run_early() {
    let server = rule(|_, _| (Duration::ZERO, Err(Failure::refused("no"))));
    let run = server.run("duration = '60s'\nshutdown_on_error = true\noperations = [['put', 1]]");
    assert!(run.failed() >= 1 && run.seconds < 30.0);
}

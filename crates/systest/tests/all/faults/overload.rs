//! F-32, F-34, F-35: overload by calls, bytes and connections. The node refuses, survives and
//! recovers.

use super::flood::{run_closed_loop, send_at_rate, send_at_rate_over};
use super::{add_counts, judge, small_setup};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::environment::{
    Root, Scratch, StopOnDrop, experiment, huge_page_bytes, missing, resident_bytes, run_ok,
};
use systest::fault_injection::{MemoryGroup, Trace};
use systest::report::{Figures, short_or_long, skipped};
use systest::server::{Server, Setup};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, WriterPlan};

/// Seconds of each part of the experiment: short form, long form.
const SECONDS: (usize, usize) = (4, 30);

#[test]
fn overload_of_three_times_the_peak_is_refused_and_recovers() {
    let _permit = experiment();
    let scratch = Scratch::new("f32");
    let setup = Setup::new(&scratch.join("data")).with_args(&["--memory-bytes-max", "64MiB"]);
    let mut server = Server::must_start(&setup);
    let mut figures = Figures::start("F-32 overload");
    let seconds = short_or_long(SECONDS.0, SECONDS.1) as u64;
    run_closed_loop(server.address, 1); // warm
    let peak = run_closed_loop(server.address, seconds) / seconds;
    let ledger = Load::start_mix(server.address, 1, 2, 900);
    let flood = send_at_rate(server.address, 3 * peak, seconds);
    let ledger = ledger.stop();
    add_counts(&mut figures, &ledger);
    figures.faults = flood.sent;
    figures.add("peak_per_s", peak);
    figures.add("offered_per_s", flood.sent / seconds);
    figures.add("goodput_percent", 100 * flood.acknowledged / seconds / peak.max(1));
    figures.add("refused", flood.refused.values().sum::<u64>());
    figures.add("refused_after_p99_ms", flood.refusal_p99_ms());
    figures.add("resident_mib", resident_bytes(server.pid()) >> 20);
    assert!(server.is_alive(), "overload ended it: {}", server.stderr_text());
    assert!(flood.acknowledged > 0, "nothing was taken during overload");
    let other_errors: Vec<_> = flood.refused.keys().filter(|name| *name != "-OVERLOADED").collect();
    assert!(other_errors.is_empty(), "refused in other words: {other_errors:?}");
    let calm = send_at_rate(server.address, peak / 2, seconds);
    figures.add("calm_taken_percent", 100 * calm.acknowledged / calm.sent.max(1));
    let after = run_closed_loop(server.address, seconds) / seconds;
    figures.add("after_percent", 100 * after / peak.max(1));
    assert!(after > 0, "it does not recover from overload");
    judge(&mut figures, &ledger, &server);
    figures.print();
}

/// Measurements of an HTTP client during a flood by others: its answers, and the node's memory.
#[derive(Default)]
struct FloodWatch {
    acknowledged: u64,
    refused_ms: Vec<u128>,
    resident: u64,
}

impl FloodWatch {
    /// Puts one row after the other until stopped.
    fn run(server: &Server, stop_flag: &AtomicBool) -> FloodWatch {
        let mut watch = FloodWatch::default();
        let mut web = Http::connect(server.address).expect("it listens");
        let path = "/v1/buckets/default/default/keys/watch";
        let headers = [("content-type", "application/octet-stream")];
        while !stop_flag.load(Ordering::Relaxed) {
            let started = Instant::now();
            let answer = web.request_with_headers("PUT", path, &headers, b"x").expect("it answers");
            watch.resident = watch.resident.max(resident_bytes(server.pid()));
            if answer.status == 204 {
                watch.acknowledged += 1;
                continue;
            }
            let refusal = (answer.status, answer.reason());
            assert_eq!(refusal, (503, "overloaded".into()), "{}", answer.text());
            assert!(answer.text().contains("undecided_bytes_max"), "{}", answer.text());
            assert!(answer.header("retry-after").is_some());
            watch.refused_ms.push(started.elapsed().as_millis());
            std::thread::sleep(Duration::from_millis(2));
        }
        watch.refused_ms.sort_unstable();
        watch
    }
}

#[test]
fn overload_on_slow_disk_is_refused_in_bounded_memory_and_recovers() {
    let name = "F-32 refusals on a slow disk";
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f32-slow");
    // Limit of undecided updates: a quarter of the store's memory, 4 MiB.
    let setup = small_setup(&scratch.join("data"));
    let mut server = Server::must_start(&setup);
    let mut figures = Figures::start(name);
    let delay = "delay_enter=400000:when=1+";
    let mut trace = Trace::attach(server.pid(), "fdatasync", delay, scratch.join("record"));
    let ledger = Load::start_mix(server.address, 1, 3, 900);
    let stop_flag = AtomicBool::new(false);
    let (flood, watch) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| FloodWatch::run(&server, &stop_flag));
        let guard = StopOnDrop(&stop_flag);
        let flood = send_at_rate_over(
            server.address,
            160,
            30_000,
            short_or_long(SECONDS.0, SECONDS.1) as u64,
        );
        drop(guard);
        (flood, watch.join().expect("it is answered"))
    });
    let ledger = ledger.stop();
    figures.faults = trace.injections();
    trace.detach();
    add_counts(&mut figures, &ledger);
    let refused: u64 = flood.refused.values().sum();
    figures.add("sent", flood.sent);
    figures.add("taken", flood.acknowledged);
    figures.add("refused", refused);
    figures.add("refused_after_p99_ms", flood.refusal_p99_ms());
    let p99 = watch.refused_ms.get(watch.refused_ms.len() * 99 / 100);
    figures.add("http_taken", watch.acknowledged);
    figures.add("http_refused", watch.refused_ms.len());
    figures.add("http_refused_after_p99_ms", p99.map_or("none".into(), u128::to_string));
    figures.add("resident_mib", watch.resident >> 20);
    assert!(server.is_alive(), "overload ended it: {}", server.stderr_text());
    assert!(
        refused > 0 && flood.acknowledged > 0,
        "{refused} refused, {} taken",
        flood.acknowledged
    );
    assert_eq!(flood.refused.keys().collect::<Vec<_>>(), ["-OVERLOADED"]);
    // A node whose every system call is traced may keep a client waiting for longer than it waits.
    let timeout = format!("connection: {}", ErrorKind::WouldBlock);
    let is_expected =
        |reason: &String| reason.to_lowercase().starts_with("overloaded") || *reason == timeout;
    assert!(ledger.refusals.keys().all(is_expected), "{:?}", ledger.refusals);
    assert!(watch.resident < 256 << 20, "{} bytes for what can't be taken", watch.resident);
    let calm = send_at_rate(server.address, 2_000, 2);
    figures.add("calm_taken_percent", 100 * calm.acknowledged / calm.sent.max(1));
    assert!(calm.refused.is_empty() && calm.acknowledged == calm.sent, "{calm:?}");
    judge(&mut figures, &ledger, &server);
    server.kill();
    judge(&mut figures, &ledger, &Server::must_start(&setup));
    figures.print();
}

#[test]
fn node_limited_to_256_mib_survives_load_without_oom_kill() {
    let name = "F-34 memory limit 256 MiB";
    if let Some(reason) = missing(Root::Needed, &["sh"]).or_else(MemoryGroup::missing) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f34");
    let group = MemoryGroup::new("f34", 256 << 20);
    let wrapper = group.wrapper();
    let wrapper_args: Vec<_> = wrapper.iter().map(String::as_str).collect();
    // Without a setting the node must itself detect the small memory, the allocator too.
    let setup = Setup::new(&scratch.join("data")).with_wrapper(&wrapper_args);
    let mut server = Server::must_start(&setup);
    let mut figures = Figures::start(name);
    let plan = |client| WriterPlan {
        client,
        keys: 30,
        depth: 2,
        bytes: 1 << 20,
        protocol: if client % 2 == 0 { ClientProtocol::Resp } else { ClientProtocol::Http },
    };
    let load = Load::start(server.address, &(0..20).map(plan).collect::<Vec<_>>());
    let idle: Vec<_> = (0..180).filter_map(|_| Resp::connect(server.address).ok()).collect();
    let (started, mut read, mut resident) = (Instant::now(), 0, 0);
    let duration = Duration::from_secs(short_or_long(8, 60) as u64);
    while started.elapsed() < duration && server.is_alive() {
        let path = "/v1/buckets/default/default/stream?want=entries";
        let answer =
            Http::connect(server.address).and_then(|mut web| web.request("GET", path, b""));
        read += answer.map_or(0, |answer| answer.body.len());
        resident = resident.max(resident_bytes(server.pid()));
    }
    let ledger = load.stop();
    figures.faults = 20 + idle.len() as u64;
    add_counts(&mut figures, &ledger);
    figures.add("streamed_mib", read >> 20);
    figures.add("resident_mib", resident >> 20);
    figures.add("peak_with_page_cache_mib", group.peak() >> 20);
    figures.add("killed", group.kills());
    for (reason, times) in &ledger.refusals {
        figures.add("refusal", format!("{times}x'{reason}'"));
    }
    figures.print();
    assert_eq!(group.kills(), 0, "the kernel killed for lack of memory");
    assert!(server.is_alive(), "{}", server.stderr_text());
    let huge = huge_page_bytes(server.pid());
    assert_eq!(huge, Some(0), "a page of 2 MiB stays as long as one value in it");
    assert!(read > 0, "nothing was streamed");
    assert!(ledger.ok > 20, "almost nothing was written: {:?}", ledger.refusals);
    judge(&mut figures, &ledger, &server);
    server.kill();
}

#[test]
fn node_out_of_descriptors_serves_open_connections_without_spinning() {
    let name = "F-35 no descriptors left";
    if let Some(reason) = missing(Root::Spared, &["prlimit"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f35");
    let server = Server::must_start(&small_setup(&scratch.join("data")));
    let mut figures = Figures::start(name);
    let mut existing = Resp::connect(server.address).expect("it listens");
    assert_eq!(existing.call_line("SET a b").expect("answers").error(), None);
    run_ok(&["prlimit", "--pid", &server.pid().to_string(), "--nofile=256:256"]);
    let connections: Vec<_> =
        (0..2_000).filter_map(|_| std::net::TcpStream::connect(server.address).ok()).collect();
    figures.faults = connections.len() as u64;
    let before = systest::environment::cpu_seconds(server.pid());
    let started = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let cpu_seconds = systest::environment::cpu_seconds(server.pid()) - before;
    let share = 100.0 * cpu_seconds / started.elapsed().as_secs_f64();
    figures.add("idle_cpu_percent", format!("{share:.0}"));
    assert!(share < 20.0, "the accept loop spins: {share:.0} % of a core while nothing is asked");
    let value = vec![b'x'; 100_000];
    for n in 0..300 {
        let key = format!("during{n}");
        let answer =
            existing.call(&[b"SET", key.as_bytes(), &value]).expect("the old one is served");
        assert_eq!(answer.error(), None, "{answer:?}");
        figures.ok += 1;
    }
    drop(connections);
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let reply = Resp::connect(server.address).and_then(|mut redis| redis.call_line("GET a"));
        if matches!(&reply, Ok(RespReply::Bulk(Some(value))) if value == b"b") {
            break;
        }
        assert!(Instant::now() < deadline, "it does not recover: {reply:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    figures.print();
}

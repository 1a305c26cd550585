//! F-32, F-34, F-35: overload by calls, bytes and connections. The node refuses, survives and
//! recovers.

use super::flood::{at_once, crowd, steadily};
use super::{count, judge, small};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::report::{Figures, skipped, times};
use systest::rigs::{
    MemoryGroup, Root, Scratch, StopOnDrop, Trace, experiment, missing, resident_bytes,
};
use systest::server::{Server, Setup};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Writing};

/// Seconds of each part of the experiment: short form, long form.
const SECONDS: (usize, usize) = (4, 30);

#[test]
fn three_times_too_many_calls_are_survived_and_forgotten() {
    let _permit = experiment();
    let scratch = Scratch::new("f32");
    let setup = Setup::on(&scratch.join("data")).with(&["--memory-bytes-max", "64MiB"]);
    let mut server = Server::must(&setup);
    let mut figures = Figures::begin("F-32 overload");
    let seconds = times(SECONDS.0, SECONDS.1) as u64;
    at_once(server.address, 1); // warm
    let peak = at_once(server.address, seconds) / seconds;
    let told = Load::mix(server.address, 1, 2, 900);
    let flood = steadily(server.address, 3 * peak, seconds);
    let told = told.stop();
    count(&mut figures, &told);
    figures.faults = flood.sent;
    figures.also("peak_per_s", peak);
    figures.also("offered_per_s", flood.sent / seconds);
    figures.also("goodput_percent", 100 * flood.taken / seconds / peak.max(1));
    figures.also("refused", flood.refused.values().sum::<u64>());
    figures.also("refused_after_p99_ms", flood.refusal_p99_ms());
    figures.also("resident_mib", resident_bytes(server.pid()) >> 20);
    assert!(server.alive(), "overload ended it: {}", server.said());
    assert!(flood.taken > 0, "nothing was taken during overload");
    let other: Vec<_> = flood.refused.keys().filter(|word| *word != "-OVERLOADED").collect();
    assert!(other.is_empty(), "refused in other words: {other:?}");
    let calm = steadily(server.address, peak / 2, seconds);
    figures.also("calm_taken_percent", 100 * calm.taken / calm.sent.max(1));
    let after = at_once(server.address, seconds) / seconds;
    figures.also("after_percent", 100 * after / peak.max(1));
    assert!(after > 0, "it does not recover from overload");
    judge(&mut figures, &told, &server);
    figures.print();
}

/// Measurements of an HTTP client during a flood by others: its answers, and the node's memory.
#[derive(Default)]
struct Watch {
    taken: u64,
    refused_ms: Vec<u128>,
    resident: u64,
}

impl Watch {
    /// Puts one row after the other until stopped.
    fn keep(server: &Server, over: &AtomicBool) -> Watch {
        let mut watch = Watch::default();
        let mut web = Http::connect(server.address).expect("it listens");
        let path = "/v1/buckets/default/default/keys/watch";
        let octets = [("content-type", "application/octet-stream")];
        while !over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let answer = web.ask_with("PUT", path, &octets, b"x").expect("it answers");
            watch.resident = watch.resident.max(resident_bytes(server.pid()));
            if answer.status == 204 {
                watch.taken += 1;
                continue;
            }
            let seen = (answer.status, answer.reason());
            assert_eq!(seen, (503, "overloaded".into()), "{}", answer.text());
            assert!(answer.text().contains("undecided_bytes_max"), "{}", answer.text());
            assert!(answer.header("retry-after").is_some());
            watch.refused_ms.push(begun.elapsed().as_millis());
            std::thread::sleep(Duration::from_millis(2));
        }
        watch.refused_ms.sort_unstable();
        watch
    }
}

#[test]
fn what_a_slow_disk_can_not_take_is_refused_in_words_and_forgotten_afterwards() {
    let name = "F-32 refusals on a slow disk";
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f32-slow");
    // Limit of undecided updates: a quarter of the store's memory, 4 MiB.
    let setup = small(&scratch.join("data"));
    let mut server = Server::must(&setup);
    let mut figures = Figures::begin(name);
    let slow = "delay_enter=400000:when=1+";
    let mut trace = Trace::attach(server.pid(), "fdatasync", slow, scratch.join("record"));
    let told = Load::mix(server.address, 1, 3, 900);
    let over = AtomicBool::new(false);
    let (flood, watch) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| Watch::keep(&server, &over));
        let stop = StopOnDrop(&over);
        let flood = crowd(server.address, 160, 30_000, times(SECONDS.0, SECONDS.1) as u64);
        drop(stop);
        (flood, watch.join().expect("it is answered"))
    });
    let told = told.stop();
    figures.faults = trace.injections();
    trace.release();
    count(&mut figures, &told);
    let refused: u64 = flood.refused.values().sum();
    figures.also("sent", flood.sent);
    figures.also("taken", flood.taken);
    figures.also("refused", refused);
    figures.also("refused_after_p99_ms", flood.refusal_p99_ms());
    let p99 = watch.refused_ms.get(watch.refused_ms.len() * 99 / 100);
    figures.also("http_taken", watch.taken);
    figures.also("http_refused", watch.refused_ms.len());
    figures.also("http_refused_after_p99_ms", p99.map_or("none".into(), u128::to_string));
    figures.also("resident_mib", watch.resident >> 20);
    assert!(server.alive(), "overload ended it: {}", server.said());
    assert!(refused > 0 && flood.taken > 0, "{refused} refused, {} taken", flood.taken);
    assert_eq!(flood.refused.keys().collect::<Vec<_>>(), ["-OVERLOADED"]);
    assert!(told.refusals.keys().all(|why| why.to_lowercase().starts_with("overloaded")));
    assert!(watch.resident < 256 << 20, "{} bytes for what can't be taken", watch.resident);
    let calm = steadily(server.address, 2_000, 2);
    figures.also("calm_taken_percent", 100 * calm.taken / calm.sent.max(1));
    assert!(calm.refused.is_empty() && calm.taken == calm.sent, "{calm:?}");
    judge(&mut figures, &told, &server);
    server.kill();
    judge(&mut figures, &told, &Server::must(&setup));
    figures.print();
}

#[test]
fn two_hundred_and_fifty_six_mebibytes_are_enough() {
    let name = "F-34 memory limit 256 MiB";
    if let Some(why) = missing(Root::Needed, &["sh"]).or_else(MemoryGroup::missing) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f34");
    let group = MemoryGroup::new("f34", 256 << 20);
    let wrapper = group.wrapper();
    let words: Vec<_> = wrapper.iter().map(String::as_str).collect();
    // Without a setting the node must itself detect the small memory, the allocator too.
    let setup = Setup::on(&scratch.join("data")).under(&words);
    let mut server = Server::must(&setup);
    let mut figures = Figures::begin(name);
    let how = |client| Writing {
        client,
        keys: 30,
        depth: 2,
        bytes: 1 << 20,
        protocol: if client % 2 == 0 { ClientProtocol::Resp } else { ClientProtocol::Http },
    };
    let load = Load::start(server.address, &(0..20).map(how).collect::<Vec<_>>());
    let idle: Vec<_> = (0..180).filter_map(|_| Resp::connect(server.address).ok()).collect();
    let (begun, mut read, mut resident) = (Instant::now(), 0, 0);
    let long_enough = Duration::from_secs(times(8, 60) as u64);
    while begun.elapsed() < long_enough && server.alive() {
        let path = "/v1/buckets/default/default/stream?want=entries";
        let answer = Http::connect(server.address).and_then(|mut web| web.ask("GET", path, b""));
        read += answer.map_or(0, |answer| answer.body.len());
        resident = resident.max(resident_bytes(server.pid()));
    }
    let ledger = load.stop();
    figures.faults = 20 + idle.len() as u64;
    count(&mut figures, &ledger);
    figures.also("streamed_mib", read >> 20);
    figures.also("resident_mib", resident >> 20);
    figures.also("peak_with_page_cache_mib", group.peak() >> 20);
    figures.also("killed", group.kills());
    for (why, times) in &ledger.refusals {
        figures.also("refusal", format!("{times}x'{why}'"));
    }
    figures.print();
    assert_eq!(group.kills(), 0, "the kernel killed for lack of memory");
    assert!(server.alive(), "{}", server.said());
    assert!(read > 0, "nothing was streamed");
    assert!(ledger.ok > 20, "almost nothing was written: {:?}", ledger.refusals);
    judge(&mut figures, &ledger, &server);
    server.kill();
}

#[test]
fn out_of_file_descriptors_it_serves_whom_it_has_and_does_not_spin() {
    let name = "F-35 no descriptors left";
    if let Some(why) = missing(Root::Spared, &["prlimit"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f35");
    let server = Server::must(&small(&scratch.join("data")));
    let mut figures = Figures::begin(name);
    let mut old = Resp::connect(server.address).expect("it listens");
    assert_eq!(old.say("SET a b").expect("answers").error(), None);
    systest::rigs::must(&["prlimit", "--pid", &server.pid().to_string(), "--nofile=256:256"]);
    let crowd: Vec<_> =
        (0..2_000).filter_map(|_| std::net::TcpStream::connect(server.address).ok()).collect();
    figures.faults = crowd.len() as u64;
    let before = systest::rigs::cpu_seconds(server.pid());
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let spent = systest::rigs::cpu_seconds(server.pid()) - before;
    let share = 100.0 * spent / begun.elapsed().as_secs_f64();
    figures.also("idle_cpu_percent", format!("{share:.0}"));
    assert!(share < 20.0, "the accept loop spins: {share:.0} % of a core while nothing is asked");
    let value = vec![b'x'; 100_000];
    for n in 0..300 {
        let key = format!("during{n}");
        let answer = old.call(&[b"SET", key.as_bytes(), &value]).expect("the old one is served");
        assert_eq!(answer.error(), None, "{answer:?}");
        figures.ok += 1;
    }
    drop(crowd);
    let until = Instant::now() + Duration::from_secs(15);
    loop {
        let again = Resp::connect(server.address).and_then(|mut redis| redis.say("GET a"));
        if matches!(&again, Ok(RespReply::Bulk(Some(value))) if value == b"b") {
            break;
        }
        assert!(Instant::now() < until, "it does not recover: {again:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    figures.print();
}

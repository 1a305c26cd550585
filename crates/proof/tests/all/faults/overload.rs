//! F-32, F-34, F-35: more than it can take: calls, bytes, connections. It refuses, lives, recovers.

use super::{count, judge, small};
use proof::client::{Http, Resp, Word, command};
use proof::history::{Load, Tongue, Writing};
use proof::report::{Figures, skipped, times};
use proof::rigs::{MemoryGroup, Root, Scratch, alone, missing, resident_bytes};
use proof::server::{Server, Setup};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A call that is refused for overload must be refused soon.
const SECONDS: usize = 4;

fn closed_loop(address: SocketAddr, round: usize, seconds: u64) -> proof::history::Ledger {
    let how = |client| Writing {
        client: round * 100 + client,
        keys: 1_000,
        depth: 32,
        bytes: 100,
        tongue: Tongue::Resp,
    };
    let load = Load::start(address, &(0..8).map(how).collect::<Vec<_>>());
    std::thread::sleep(Duration::from_secs(seconds));
    load.stop()
}

/// Sends `rate` calls a second whatever comes back; what came back, by its first word.
fn open_loop(address: SocketAddr, rate: u64, seconds: u64) -> (u64, u64, u64) {
    const CONNECTIONS: u64 = 16;
    let one = |_| {
        let stream = std::net::TcpStream::connect(address).expect("it listens");
        let mut writer = stream.try_clone().expect("a socket can be cloned");
        writer.set_write_timeout(Some(Duration::from_secs(20))).expect("a timeout can be set");
        let sender = std::thread::spawn(move || {
            use std::io::Write as _;
            let begun = Instant::now();
            let mut sent = 0;
            while begun.elapsed() < Duration::from_secs(seconds) {
                let due = begun.elapsed().as_micros() as u64 * rate / CONNECTIONS / 1_000_000;
                let batch = due.saturating_sub(sent).min(2_000);
                let call = command(&[b"SET", b"open", b"0123456789"]);
                if batch == 0 || writer.write_all(&call.repeat(batch as usize)).is_err() {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                }
                sent += batch;
            }
            let _ = writer.write_all(&command(&[b"QUIT"]));
            sent
        });
        (sender, std::thread::spawn(move || answers(stream)))
    };
    let pairs: Vec<_> = (0..CONNECTIONS).map(one).collect();
    let (mut sent, mut ok, mut refused) = (0, 0, 0);
    for (sender, reader) in pairs {
        sent += sender.join().expect("a sender does not panic");
        let (good, bad) = reader.join().expect("a reader does not panic");
        ok += good;
        refused += bad;
    }
    (sent, ok, refused)
}

/// Counts answers until the connection ends: taken, refused.
fn answers(stream: std::net::TcpStream) -> (u64, u64) {
    use std::io::BufRead as _;
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    let (mut ok, mut refused) = (0, 0);
    for line in std::io::BufReader::new(stream).lines().map_while(Result::ok) {
        match line.as_bytes().first() {
            Some(b'+') => ok += 1,
            Some(b'-') => refused += 1,
            _ => {}
        }
    }
    (ok, refused)
}

#[test]
fn three_times_too_many_calls_are_survived_and_forgotten() {
    let _alone = alone();
    let scratch = Scratch::new("f32");
    let mut server = Server::must(&Setup::on(&scratch.join("data")));
    let mut figures = Figures::begin("F-32 overload");
    let seconds = times(SECONDS, 30) as u64;
    let before = closed_loop(server.address, 1, seconds);
    count(&mut figures, &before);
    let peak = before.ok / seconds;
    let (sent, ok, refused) = open_loop(server.address, 3 * peak, seconds);
    figures.faults = sent;
    figures.also("peak_per_s", peak);
    figures.also("taken_during", ok);
    figures.also("refused_during", refused);
    figures.also("resident_mib", resident_bytes(server.pid()) >> 20);
    assert!(server.alive(), "overload ended it: {}", server.said());
    assert!(ok > 0, "nothing was taken during overload");
    let after = closed_loop(server.address, 2, seconds);
    count(&mut figures, &after);
    figures.also("after_per_s", after.ok / seconds);
    assert!(after.ok > 0, "it does not recover from overload");
    judge(&mut figures, &before, &server);
    judge(&mut figures, &after, &server);
    figures.print();
}

#[test]
fn two_hundred_and_fifty_six_mebibytes_are_enough() {
    let name = "F-34 memory limit 256 MiB";
    if let Some(why) = missing(Root::Needed, &["sh"]).or_else(MemoryGroup::missing) {
        return skipped(name, &why);
    }
    let _alone = alone();
    let scratch = Scratch::new("f34");
    let group = MemoryGroup::new("f34", 256 << 20);
    let wrapper = group.wrapper();
    let words: Vec<_> = wrapper.iter().map(String::as_str).collect();
    let setup = Setup::on(&scratch.join("data"))
        .with(&["--memory-bytes-max", "48MiB", "--segment-bytes", "16MiB"])
        .under(&words);
    let mut server = Server::must(&setup);
    let mut figures = Figures::begin(name);
    let how = |client| Writing {
        client,
        keys: 20,
        depth: 2,
        bytes: 2 << 20,
        tongue: if client % 2 == 0 { Tongue::Resp } else { Tongue::Http },
    };
    let load = Load::start(server.address, &(0..20).map(how).collect::<Vec<_>>());
    let idle: Vec<_> = (0..180).filter_map(|_| Resp::connect(server.address).ok()).collect();
    let begun = Instant::now();
    let mut read = 0;
    while begun.elapsed() < Duration::from_secs(times(6, 60) as u64) {
        let mut web = Http::connect(server.address).expect("it listens");
        let path = "/v1/buckets/default/default/stream?want=entries";
        if let Ok(answer) = web.ask("GET", path, b"") {
            read += answer.body.len();
        }
    }
    let ledger = load.stop();
    figures.faults = 20 + idle.len() as u64;
    count(&mut figures, &ledger);
    figures.also("streamed_mib", read >> 20);
    figures.also("peak_mib", group.peak() >> 20);
    figures.also("killed", group.kills());
    for (why, times) in &ledger.refusals {
        figures.also("refusal", format!("{times}x'{why}'"));
    }
    assert_eq!(group.kills(), 0, "the kernel killed for lack of memory");
    assert!(server.alive(), "{}", server.said());
    assert!(read > 0, "nothing was streamed");
    assert!(ledger.ok > 20, "almost nothing was written: {:?}", ledger.refusals);
    judge(&mut figures, &ledger, &server);
    figures.print();
    server.kill();
}

#[test]
fn out_of_file_descriptors_it_serves_whom_it_has_and_does_not_spin() {
    let name = "F-35 no descriptors left";
    if let Some(why) = missing(Root::Spared, &["prlimit"]) {
        return skipped(name, &why);
    }
    let _alone = alone();
    let scratch = Scratch::new("f35");
    let server = Server::must(&small(&scratch.join("data")));
    let mut figures = Figures::begin(name);
    let mut old = Resp::connect(server.address).expect("it listens");
    assert_eq!(old.say("SET a b").expect("answers").error(), None);
    proof::rigs::must(&["prlimit", "--pid", &server.pid().to_string(), "--nofile=256:256"]);
    let crowd: Vec<_> =
        (0..1_000).filter_map(|_| std::net::TcpStream::connect(server.address).ok()).collect();
    figures.faults = crowd.len() as u64;
    let before = proof::rigs::cpu_seconds(server.pid());
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let spent = proof::rigs::cpu_seconds(server.pid()) - before;
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
        if matches!(&again, Ok(Word::Bulk(Some(value))) if value == b"b") {
            break;
        }
        assert!(Instant::now() < until, "it does not recover: {again:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    figures.print();
}

//! Time of refusals: nothing about it, nor about their texts, tells what exists from what does not.
//!
//! Pairs of requests are made in turn, the one about something that exists, the other about
//! something that does not, so that whatever else the machine does meets both alike.

use std::net::SocketAddr;
use std::time::Instant;
use systest::access::{AccessAdmin, basic};
use systest::client::{Http, Resp};
use systest::environment::{Scratch, experiment};
use systest::latencies::Latencies;
use systest::report::{BoundChecks, Figures, print_line, short_or_long};
use systest::server::{Server, Setup};

const PASSWORD: &str = "timing-password";
/// Largest distance of the distributions of both times, in the long form: most of it is noise.
const DISTANCE_MAX: f64 = 0.2;
/// Largest ratio of the medians.
const RATIO_MAX: f64 = 1.1;
/// Failed logins that an address may make for one user in a minute (`docs/run/access.md`), less
/// one.
const FAILURES: usize = 9;
/// Users whose passwords are guessed.
const USERS: usize = 8;

/// Request about one of two things; returns the answer as text.
type TimedRequest<'a> = Box<dyn FnMut(&str) -> String + 'a>;

/// Request that is made about what exists, and about what does not.
struct TimedPair<'a> {
    name: &'static str,
    /// Names of both, of equal length.
    existing: String,
    absent: String,
    request: TimedRequest<'a>,
}

impl TimedPair<'_> {
    /// Makes one request; returns its answer, without the name, and adds its time.
    fn ask(&mut self, exists: bool, times: &mut Latencies) -> String {
        let name = if exists { &self.existing } else { &self.absent };
        let asked = Instant::now();
        let answer = (self.request)(name);
        times.add(asked.elapsed());
        answer.replace(name.as_str(), "NAME")
    }

    /// Makes both requests so many times, in alternating order.
    fn compare(&mut self, rounds: usize, bounds: &mut BoundChecks) {
        let (mut existing, mut absent) = (Latencies::default(), Latencies::default());
        for round in 0..rounds {
            let mut answers = [String::new(), String::new()];
            for exists in [round % 2 == 0, round % 2 != 0] {
                let times = if exists { &mut existing } else { &mut absent };
                answers[usize::from(exists)] = self.ask(exists, times);
            }
            assert_eq!(answers[0], answers[1], "{}: the answers differ", self.name);
        }
        let distance = existing.distance(&absent);
        let ratio = existing.per_mille_ms(500) / absent.per_mille_ms(500);
        print_line(&format!(
            "S13 {}: existing p50={:.3} p99={:.3} ms, absent p50={:.3} p99={:.3} ms, overlap={:.3}",
            self.name,
            existing.per_mille_ms(500),
            existing.per_mille_ms(990),
            absent.per_mille_ms(500),
            absent.per_mille_ms(990),
            1.0 - distance
        ));
        bounds.check(&format!("S13 {}: distance of the times", self.name), distance, DISTANCE_MAX);
        let ratio = ratio.max(1.0 / ratio);
        bounds.check(&format!("S13 {}: ratio of the medians", self.name), ratio, RATIO_MAX);
    }
}

/// Returns a request over HTTP on one connection, as a user without any right.
fn http(address: SocketAddr, path: &'static str) -> TimedRequest<'static> {
    let header = basic("nobody", PASSWORD);
    let mut client = Http::connect(address).expect("it listens");
    Box::new(move |name| {
        let path = path.replace('@', name);
        let headers = [("authorization", header.as_str())];
        let answer = client.request_with_headers("GET", &path, &headers, b"");
        let answer = answer.expect("it answers");
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        format!("{} {:?} {}", answer.status, fixed_headers(&answer.headers), answer.text())
    })
}

/// Returns the headers without those that a clock sets.
fn fixed_headers(headers: &[(String, String)]) -> Vec<&(String, String)> {
    headers.iter().filter(|(name, _)| name != "date").collect()
}

/// Returns a command of Redis' protocol on one connection, as a user without any right.
fn resp(address: SocketAddr, line: &'static str) -> TimedRequest<'static> {
    let mut client = Resp::connect(address).expect("it listens");
    super::log_in(&mut client, "nobody", PASSWORD);
    Box::new(move |name| {
        let reply = client.call_line(&line.replace('@', name)).expect("it answers");
        assert!(reply.error().is_some_and(|error| error.starts_with("NOPERM")), "{line}");
        format!("{reply:?}")
    })
}

/// Starts a node with things that exist, and users who may not see them.
fn start(scratch: &Scratch) -> Server {
    let server = Server::must_start(&Setup::new(&scratch.join("data")));
    let mut web = Http::connect(server.address).expect("it listens");
    for (path, status) in
        [("/v1/buckets/default/held", 201), ("/v1/buckets/default/default/keys/held", 204)]
    {
        let body: &[u8] = if status == 204 { b"v" } else { b"" };
        let headers = [("content-type", "application/octet-stream")];
        let answer = web.request_with_headers("PUT", path, &headers, body).expect("it answers");
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    let admin = AccessAdmin::new(&server.setup.data);
    admin.set_role("nothing", &[]);
    admin.add_user("nobody", PASSWORD, "nothing");
    for user in 0..USERS {
        admin.add_user(&format!("held{user:03}"), PASSWORD, "nothing");
    }
    admin.turn_on();
    server
}

#[test]
fn refusals_of_existing_and_absent_things_have_equal_texts_and_times() {
    let _permit = experiment();
    let scratch = Scratch::new("timing");
    let server = start(&scratch);
    let address = server.address;
    let mut figures = Figures::start("S13 time of refusals");
    let mut bounds = BoundChecks::default();
    let pair = |name, request| {
        let (existing, absent) = ("held".to_string(), "gone".to_string());
        TimedPair { name, existing, absent, request }
    };
    let rounds = short_or_long(200, 5_000);
    for mut pair in [
        pair("a bucket over HTTP", http(address, "/v1/buckets/default/@/keys/k")),
        pair("a bucket's properties", http(address, "/v1/buckets/default/@")),
        pair("a key over HTTP", http(address, "/v1/buckets/default/default/keys/@")),
        pair("a key of Redis' protocol", resp(address, "GET @")),
        pair("a key that would change", resp(address, "SETNX @ v")),
        pair("a bucket of Redis' protocol", resp(address, "CREDENZA.BUCKET default/@")),
    ] {
        pair.compare(rounds, &mut bounds);
        figures.ok += 2 * rounds as u64;
    }
    compare_logins(address, &mut bounds);
    figures.print();
    bounds.assert_bounds();
}

/// Compares wrong passwords of users that exist with logins of users that do not.
fn compare_logins(address: SocketAddr, bounds: &mut BoundChecks) {
    let mut round = 0;
    let request = Box::new(move |name: &str| {
        let user = format!("{name}{:03}", round / 2 % USERS);
        round += 1;
        // A wrong login ends the connection.
        let mut client = Http::connect(address).expect("it listens");
        let header = basic(&user, "wrong-password");
        let headers = [("authorization", header.as_str())];
        let path = "/v1/buckets/default/default/keys/k";
        let answer = client.request_with_headers("GET", path, &headers, b"").expect("it answers");
        assert_eq!(answer.status, 401, "{}", answer.text());
        format!("{:?} {}", fixed_headers(&answer.headers), answer.text())
    });
    let (existing, absent) = ("held".into(), "gone".into());
    let mut pair = TimedPair { name: "a login", existing, absent, request };
    pair.compare(USERS * FAILURES, bounds);
}

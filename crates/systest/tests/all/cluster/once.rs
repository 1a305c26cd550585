//! F-60: requests whose answers are lost are repeated, also at another node, and apply once.

use super::SECOND;
use serde_json::json;
use std::net::SocketAddr;
use systest::client::{Http, Resp};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::{Cable, Network};
use systest::report::{Figures, short_or_long, skipped};

const SESSIONS: &str = "/v1/sessions/default/default";
const UPDATE: &str = "/v1/buckets/default/default/update";

/// A client that adds one to its counter and then replaces its number by the next if it is the one
/// before, and repeats each request until it has the answer. A replacement that is applied twice
/// finds another number the second time.
struct RetryingClient {
    nodes: Vec<SocketAddr>,
    at: usize,
    web: Option<Http>,
    retries: u32,
}

impl RetryingClient {
    fn request_until_answered(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> serde_json::Value {
        loop {
            let address = self.nodes[self.at % self.nodes.len()];
            let answer = match self.web.take() {
                Some(web) => Ok(web),
                None => Http::with_timeout(address, SECOND / 2),
            };
            let answer = answer.and_then(|mut web| {
                let answer = web.request_with_headers("POST", path, headers, body.as_bytes());
                self.web = Some(web);
                answer
            });
            match answer {
                Ok(answer) if answer.status / 100 == 2 => return answer.json(),
                Ok(answer) if answer.status == 503 || answer.status == 504 => {}
                Ok(answer) => panic!("{path}: {}", answer.text()),
                Err(_) => {}
            }
            (self.web, self.at, self.retries) = (None, self.at + 1, self.retries + 1);
            std::thread::sleep(SECOND / 50);
        }
    }

    /// Does this many additions and replacements; returns the number of answers that were not those
    /// of the first attempt.
    fn run_updates(&mut self, key: &str, count: u64) -> u64 {
        let opened = self.request_until_answered(SESSIONS, &[], "");
        let session = opened["session"].as_str().expect("a session's id").to_string();
        let mut unexpected_answers = 0;
        for number in 1..=count {
            // The pause makes it likely that answers are in transit when links are cut.
            std::thread::sleep(SECOND / 100);
            let add = json!({"op": "add", "key": key, "delta": 1});
            let answer = self.update(&session, 2 * number - 1, &add);
            unexpected_answers += u64::from(answer["number"].as_u64() != Some(number));
            let before = (number > 1).then(|| (number - 1).to_string());
            let key = format!("{key}-replaced");
            let replace = json!({
                "op": "test_and_set", "key": key,
                "expected": before, "wanted": number.to_string(),
            });
            let answer = self.update(&session, 2 * number, &replace);
            unexpected_answers += u64::from(answer["old"].as_str().map(String::from) != before);
        }
        unexpected_answers
    }

    /// Sends one request of a session.
    fn update(
        &mut self,
        session: &str,
        number: u64,
        body: &serde_json::Value,
    ) -> serde_json::Value {
        let number = number.to_string();
        let headers = [
            ("x-credenza-session", session),
            ("x-credenza-request", &number),
            ("content-type", "application/json"),
        ];
        self.request_until_answered(UPDATE, &headers, &body.to_string())
    }
}

#[test]
fn retries_after_lost_responses_apply_once_at_any_node() {
    let name = "F-60 retries after lost answers";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-once");
    let mut cluster = Cluster::start(&scratch, Options::new(3).with_switch());
    let mut figures = Figures::start(name);
    let (clients, count) = (4, short_or_long(300, 3_000) as u64);
    let nodes = cluster.client_addresses();
    let workers: Vec<_> = cluster.on_client_host(|| {
        let start_worker = |at: usize| {
            let nodes = nodes.clone();
            std::thread::spawn(move || {
                let mut client = RetryingClient { nodes, at, web: None, retries: 0 };
                let unexpected_answers = client.run_updates(&format!("counter{at}"), count);
                (unexpected_answers, client.retries)
            })
        };
        (0..clients).map(start_worker).collect()
    });
    // Answers are cut off repeatedly, from each node in turn; then the master dies, too.
    let client_host = cluster.size() + 1;
    let mut round = 0;
    while workers.iter().any(|worker| !worker.is_finished()) {
        let node = round % cluster.size() + 1;
        cluster.network().set_link(node, client_host, Cable::CUT);
        std::thread::sleep(SECOND * 7 / 10);
        cluster.heal();
        if round == 2 {
            let master = cluster.master();
            cluster.kill(master);
            cluster.start_node(master);
            figures.faults += 1;
        }
        std::thread::sleep(SECOND / 2);
        figures.faults += 1;
        round += 1;
    }
    let mut unexpected_answers = 0;
    for worker in workers {
        let (unexpected, retries) = worker.join().expect("a client does not panic");
        unexpected_answers += unexpected;
        figures.info += u64::from(retries);
    }
    cluster.must_serve();
    let counters = cluster.on_client_host(|| {
        let mut redis = Resp::connect(nodes[0]).expect("it listens");
        let mut get = |key| redis.call_line(&format!("GET {key}")).expect("it answers");
        let keys = (0..clients).flat_map(|at| {
            [String::new(), "-replaced".into()].map(|suffix| format!("counter{at}{suffix}"))
        });
        keys.map(&mut get).collect::<Vec<_>>()
    });
    figures.ok = 2 * clients as u64 * count;
    figures.add("doubles", unexpected_answers);
    figures.print();
    for counter in counters {
        assert_eq!(counter.bytes(), Some(count.to_string().as_bytes()), "each applied once");
    }
    assert_eq!(unexpected_answers, 0, "an answer was not that of the first attempt");
    assert!(figures.info > 0, "no answer was lost");
    cluster.must_have_equal_rows();
}

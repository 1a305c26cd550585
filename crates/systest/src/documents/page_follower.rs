//! Follower that asks for page after page, waits for events, and keeps the token of each page with
//! what it knows. Now and then it dies, and goes on from its kept token at another node.

use super::follower::{Follower, feed_path};
use super::shared::{DocumentBucket, FAILOVER_PAUSE};
use super::view::FollowerView;
use crate::client::Http;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for an answer, beyond what the request itself waits for events.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);
/// Longest wait for an event, in milliseconds.
const WAIT_MS_MAX: u64 = 2_000;
/// Share of pages in whose wait it dies: one in some ten seconds while clients write.
const DEATH_RATE: f64 = 0.002;
/// Most events that it asks for.
const EVENTS_MAX: usize = 60;

/// Follower by pages, on a thread of its own.
pub(super) struct PageFollower {
    follower: Arc<Follower>,
    dice: StdRng,
    /// Longest absence after a death.
    absence_max: Duration,
}

impl PageFollower {
    pub fn new(follower: Arc<Follower>, seed: u64, absence_max: Duration) -> PageFollower {
        let dice = StdRng::seed_from_u64(seed.wrapping_mul(3001));
        PageFollower { follower, dice, absence_max }
    }

    /// Follows until stopped.
    pub fn run(mut self) {
        let shared = self.follower.shared.clone();
        let mut at = self.dice.random_range(0..16);
        while !shared.is_stopped() {
            let node = shared.node(at);
            if let Ok(mut client) = Http::with_timeout(node, ANSWER_TIMEOUT) {
                while !shared.must_leave(node) && self.read_page(&mut client) {}
            }
            at += 1;
            std::thread::sleep(FAILOVER_PAUSE);
        }
    }

    /// Reads a page. Returns false if it goes on at another node.
    fn read_page(&mut self, client: &mut Http) -> bool {
        let shared = &self.follower.shared;
        let bucket = shared.bucket;
        let (limit, wait_ms) =
            (self.dice.random_range(1..=EVENTS_MAX), self.dice.random_range(0..=WAIT_MS_MAX));
        let parameters = format!("&limit={limit}&wait_ms={wait_ms}");
        let path = feed_path(bucket, "", &self.follower.token(), &parameters);
        let before = shared.record.expectations(bucket.settle());
        if self.dice.random_bool(DEATH_RATE) {
            // Nobody reads the answer.
            let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", client.host());
            let _ = client.send(request.as_bytes());
            self.follower.count_resumption();
            shared.sleep(self.absence_max.mul_f64(self.dice.random_range(0.05..1.0)));
            return false;
        }
        let Ok(answer) = client.request("GET", &path, b"") else { return false };
        if answer.status != 200 {
            self.follower.on_refusal(answer.status, &answer.text());
            return false;
        }
        let page = answer.json();
        self.follower.apply(&page, |view| {
            take_page(view, &page);
            if page["level"] == true && bucket == DocumentBucket::Consistent {
                view.judge_level(&shared.record.still_certain(before));
            }
        });
        true
    }
}

fn take_page(view: &mut FollowerView, page: &Value) {
    if page["restart"] == true {
        view.restart();
    }
    page["events"].as_array().into_iter().flatten().for_each(|event| view.take(event));
    match page["level"] == true {
        true => view.reach_level(),
        false => view.leave_level(),
    }
}

/// Reads the feed from the start until it is level, at one node. Fails with the reason.
pub(super) fn read_from_start(follower: &Follower, address: SocketAddr) -> Result<(), String> {
    let bucket = follower.shared.bucket;
    let text = |error: std::io::Error| error.to_string();
    let mut client = Http::with_timeout(address, ANSWER_TIMEOUT).map_err(text)?;
    loop {
        let path = feed_path(bucket, "", &follower.token(), "");
        let answer = client.request("GET", &path, b"").map_err(text)?;
        if answer.status != 200 {
            return Err(answer.text());
        }
        let page = answer.json();
        follower.apply(&page, |view| take_page(view, &page));
        if page["level"] == true {
            return Ok(());
        }
    }
}

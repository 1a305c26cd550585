//! Clients of the indexes and feeds of a bucket: writers of JSON documents that record what was
//! acknowledged, queriers of an index, and followers of the feed; with the judges of answers and
//! of what followers were told.
//!
//! A [`DocumentWorkload`] has the clients of one bucket, on threads of their own. A
//! [`CommandFollower`] is a process beside them.
//!
//! Promises: a write without an answer leaves its key in doubt, and nothing is asserted of it but
//! that its values were written; a state is expected of a key only if no write of it began from
//! before the question until after the answer; a follower keeps its view in one step with its
//! token.
//! Never: judges an answer that says that it is not complete; takes a refusal for an answer.
//! Read next: `record.rs`, then the judges `answers.rs` and `view.rs`.

mod answers;
mod command_follower;
mod document;
mod follower;
mod page_follower;
mod querier;
mod record;
mod rows;
mod shared;
mod stream_follower;
mod view;
mod writer;

pub use command_follower::CommandFollower;
pub use document::DocumentRows;
pub use querier::QueryCounts;
pub use shared::{DocumentBucket, INDEX, QuietTime};
pub use view::FollowerView;
pub use writer::WriteCounts;

use follower::Follower;
use page_follower::PageFollower;
use querier::IndexQuerier;
use shared::SharedState;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use stream_follower::StreamFollower;
use writer::DocumentWriter;

/// Number of writers of a bucket.
const WRITERS: usize = 2;

/// Plan of the clients of a bucket.
#[derive(Clone, Copy, Debug)]
pub struct DocumentPlan {
    /// The bucket, which has the index [`INDEX`] of `$.n` and a feed.
    pub bucket: DocumentBucket,
    /// Seed of what the clients draw.
    pub seed: u64,
    /// Longest absence of the follower that dies now and then.
    pub absence_max: Duration,
}

/// Numbers of what the clients of a bucket did.
#[derive(Clone, Debug, Default)]
pub struct DocumentCounts {
    /// Writes by outcome.
    pub writes: WriteCounts,
    /// Answers of the index.
    pub queries: QueryCounts,
    /// Events that followers were told.
    pub events: u64,
    /// Restarts of followers.
    pub restarts: u64,
    /// Number of times that followers went on from a token elsewhere.
    pub resumptions: u64,
}

/// Clients of a bucket at work. A drop tells them to stop.
pub struct DocumentWorkload {
    shared: Arc<SharedState>,
    writers: Vec<JoinHandle<WriteCounts>>,
    queriers: Vec<JoinHandle<QueryCounts>>,
    followers: Vec<Arc<Follower>>,
    follower_threads: Vec<JoinHandle<()>>,
}

impl DocumentWorkload {
    /// Starts the clients.
    pub fn start(plan: DocumentPlan, nodes: &[SocketAddr]) -> DocumentWorkload {
        let DocumentPlan { bucket, seed, absence_max } = plan;
        let shared = Arc::new(SharedState::new(bucket, nodes));
        let write = |number: usize| {
            let writer = DocumentWriter::new(shared.clone(), number, seed);
            std::thread::spawn(move || writer.run())
        };
        let writers = (0..WRITERS).map(write).collect();
        let querier = IndexQuerier::new(shared.clone(), seed);
        let queriers = vec![std::thread::spawn(move || querier.run())];
        let followers = vec![Follower::new(&shared, "pages"), Follower::new(&shared, "stream")];
        let pages = PageFollower::new(followers[0].clone(), seed, absence_max);
        let stream = StreamFollower::new(followers[1].clone());
        let follower_threads =
            vec![std::thread::spawn(move || pages.run()), std::thread::spawn(move || stream.run())];
        DocumentWorkload { shared, writers, queriers, followers, follower_threads }
    }

    /// Returns the bucket.
    pub fn bucket(&self) -> DocumentBucket {
        self.shared.bucket
    }

    /// Sets the nodes that clients go to from now on.
    pub fn set_nodes(&self, nodes: &[SocketAddr]) {
        self.shared.set_nodes(nodes);
    }

    /// Lets no client write, from when every write in progress has its outcome.
    pub fn quiet_time(&self) -> QuietTime<'_> {
        self.shared.quiet_time()
    }

    /// Reads the rows of the bucket at a node. Fails with its answer.
    pub fn read_rows(&self, node: SocketAddr) -> Result<DocumentRows, String> {
        rows::read_rows(&self.shared, node)
    }

    /// Judges the rows while nobody writes: returns what is lost, and what is wrong.
    pub fn judge_rows(&self, rows: &DocumentRows) -> (Vec<String>, Vec<String>) {
        self.shared.record.judge_rows(rows)
    }

    /// Returns the keys whose record has a time to live and may still be there.
    pub fn mortal_keys(&self) -> BTreeSet<String> {
        self.shared.record.mortal_keys()
    }

    /// Returns what followers lack to be level with the rows, but for keys that may expire at any
    /// moment; nothing if all are level.
    pub fn lags(&self, rows: &DocumentRows, command: &mut CommandFollower) -> Vec<String> {
        let mortal = self.mortal_keys();
        let mut lags = Vec::new();
        for follower in &self.followers {
            let view = follower.view();
            let differences = view.differences(rows, &mortal);
            if !view.is_level() || !differences.is_empty() {
                let refusals = follower.refusals();
                lags.push(lag_text(&follower.name, view.is_level(), &differences) + &refusals);
            }
        }
        let name = command.name();
        let differences = command.view().differences(rows, &mortal);
        if !differences.is_empty() {
            lags.push(lag_text(&name, true, &differences));
        }
        lags
    }

    /// Reads the feed from the start at a node; fails with what a reader lacks then.
    pub fn read_from_start(&self, rows: &DocumentRows, node: SocketAddr) -> Result<(), String> {
        let follower = Follower::new(&self.shared, "new reader");
        page_follower::read_from_start(&follower, node)?;
        let view = follower.view();
        let differences = view.differences(rows, &self.mortal_keys());
        let is_clean = differences.is_empty() && view.findings().is_empty();
        let findings = view.findings().join("; ");
        let text = || lag_text(&follower.name, view.is_level(), &differences) + &findings;
        if is_clean { Ok(()) } else { Err(text()) }
    }

    /// Records which keys have expired: those that are in no row and in no view.
    pub fn bury_expired(&self, rows: &DocumentRows, command: &mut CommandFollower) {
        let mut found: BTreeSet<String> = rows.keys().cloned().collect();
        for follower in &self.followers {
            found.extend(follower.view().keys().cloned());
        }
        found.extend(command.view().keys().cloned());
        self.shared.record.bury_expired(&found);
    }

    /// Returns what clients saw and may not see.
    pub fn findings(&self, command: &mut CommandFollower) -> Vec<String> {
        let mut findings = self.shared.findings();
        for follower in &self.followers {
            let view = follower.view();
            findings.extend(view.findings().iter().map(|it| format!("{}: {it}", follower.name)));
        }
        let name = command.name();
        findings.extend(command.view().findings().iter().map(|it| format!("{name}: {it}")));
        findings
    }

    /// Stops the clients; returns what they did.
    pub fn stop(mut self, command: &mut CommandFollower) -> DocumentCounts {
        self.shared.stop();
        let mut counts = DocumentCounts::default();
        for writer in self.writers.drain(..) {
            counts.writes.join(writer.join().expect("a writer does not panic"));
        }
        for querier in self.queriers.drain(..) {
            counts.queries.join(querier.join().expect("a querier does not panic"));
        }
        for thread in self.follower_threads.drain(..) {
            thread.join().expect("a follower does not panic");
        }
        let views: Vec<_> = self.followers.iter().map(|follower| follower.view()).collect();
        for view in views.iter().chain([command.view()]) {
            counts.events += view.events;
            counts.restarts += view.restarts;
        }
        let resumptions = self.followers.iter().map(|follower| follower.resumptions());
        counts.resumptions = resumptions.sum::<u64>() + command.resumptions();
        counts
    }
}

impl Drop for DocumentWorkload {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// Describes what a reader lacks: the first differences, and their number.
fn lag_text(name: &str, is_level: bool, differences: &[String]) -> String {
    let first: Vec<_> = differences.iter().take(3).map(String::as_str).collect();
    let count = differences.len();
    format!("{name}: level: {is_level}; {count} keys differ: {}; ", first.join("; "))
}

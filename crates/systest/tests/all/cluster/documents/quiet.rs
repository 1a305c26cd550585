//! Judgement of a bucket while nobody writes: rows against what was acknowledged, and every reader
//! against the rows.

use super::{BucketClients, LEVEL_TIMEOUT, await_state};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use systest::cluster::{Cluster, wait_until};
use systest::documents::{CommandFollower, DocumentRows, DocumentWorkload, QuietTime};
use systest::report::Figures;

/// Time limit for records to be removed, and told as deleted, after their time to live.
const EXPIRY_TIMEOUT: Duration = Duration::from_secs(120);

/// A bucket whose clients do not write, as long as this lives.
pub(super) struct QuietBucket<'a> {
    workload: &'a DocumentWorkload,
    command: &'a mut CommandFollower,
    _quiet: QuietTime<'a>,
    /// Time until every follower was level. `None`: one is not.
    pub level_after: Option<Duration>,
}

impl<'a> QuietBucket<'a> {
    /// Waits until every write in progress has its outcome.
    pub fn new(clients: &'a mut BucketClients) -> QuietBucket<'a> {
        let BucketClients { command, workload } = clients;
        let workload: &DocumentWorkload = workload;
        QuietBucket { workload, command, _quiet: workload.quiet_time(), level_after: None }
    }

    /// Compares what followers know with the rows at a node. Fails with what they lack.
    pub fn look(&mut self, node: SocketAddr, began: Instant) -> Result<(), String> {
        if self.level_after.is_none() {
            self.compare(node)?;
            self.level_after = Some(began.elapsed());
        }
        Ok(())
    }

    fn compare(&mut self, node: SocketAddr) -> Result<DocumentRows, String> {
        let rows = self.workload.read_rows(node)?;
        let lags = self.workload.lags(&rows, self.command);
        if lags.is_empty() { Ok(rows) } else { Err(lags.join("\n")) }
    }

    fn rows(&self, node: SocketAddr) -> DocumentRows {
        let mut rows = DocumentRows::new();
        wait_until("the rows", || {
            rows = self.workload.read_rows(node)?;
            Ok(())
        });
        rows
    }

    /// Judges the rows at a node, what clients saw so far, and a reader that begins at the start.
    pub fn judge(&mut self, any_node: &mut dyn FnMut() -> SocketAddr, figures: &mut Figures) {
        let rows = self.rows(any_node());
        self.must_be_clean(&rows, figures);
        await_state("a new reader that is level", LEVEL_TIMEOUT, || {
            let rows = self.workload.read_rows(any_node())?;
            self.workload.read_from_start(&rows, any_node())
        });
        self.workload.bury_expired(&rows, self.command);
    }

    fn must_be_clean(&mut self, rows: &DocumentRows, figures: &mut Figures) {
        let (lost, wrong) = self.workload.judge_rows(rows);
        figures.lost += lost.len() as u64;
        let findings = self.workload.findings(self.command);
        let is_clean = lost.is_empty() && wrong.is_empty() && findings.is_empty();
        if !is_clean {
            figures.print();
        }
        let name = self.workload.bucket().name();
        assert!(is_clean, "{name}: lost: {lost:#?}\nwrong: {wrong:#?}\ntold: {findings:#?}");
    }

    /// Waits until every record with a time to live is gone, and every follower knows it; then
    /// judges the rows at each node, and that the comparison notices a row that readers lack.
    pub fn judge_end(&mut self, cluster: &Cluster, figures: &mut Figures) {
        let (began, node) = (Instant::now(), cluster.client_address(1));
        await_state("the end of what has expired", EXPIRY_TIMEOUT, || {
            let rows = self.compare(node)?;
            self.workload.bury_expired(&rows, self.command);
            let left = self.workload.mortal_keys();
            if left.is_empty() { Ok(()) } else { Err(format!("{} keys: {left:?}", left.len())) }
        });
        let name = format!("{:?}_expired_after_ms", self.workload.bucket()).to_lowercase();
        figures.add(&name, began.elapsed().as_millis());
        for address in cluster.client_addresses() {
            let rows = self.rows(address);
            self.must_be_clean(&rows, figures);
        }
        let mut tampered = self.rows(node);
        tampered.insert("w0-nobody".into(), ["{}".to_string()].into());
        let lags = self.workload.lags(&tampered, self.command);
        assert!(!lags.is_empty(), "the comparison notices nothing");
        assert!(!self.workload.judge_rows(&tampered).1.is_empty(), "the judge notices nothing");
    }
}

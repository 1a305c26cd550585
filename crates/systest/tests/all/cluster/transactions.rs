//! Sequences with predicates, transactions that watch keys, ranges, numbers, rows that expire,
//! reads of every level and pipelines, each key used by every front-end: one history under faults,
//! which the log must explain.

use super::{SECOND, two_leases};
use systest::checkers::transactions::{Committed, ValueEffect, judge};
use systest::client::Arakoon;
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::Network;
use systest::report::{Figures, short_or_long, skipped};
use systest::workload::CallOutcome;
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::transactions::TransactionAnswer::Done;
use systest::workload::transactions::{
    CLUSTER, Level, StepAnswer, Transaction, TransactionAnswer, TransactionStep,
    TransactionWorkload,
};

/// Front-ends of the workload; each must have served some transactions.
const FRONT_ENDS: [&str; 8] = [
    "resp",
    "resp pipeline",
    "resp transaction",
    "http",
    "http sequence",
    "http session",
    "riak",
    "arakoon",
];

fn options() -> Options {
    let mut options = Options::new(3);
    options.args.extend(["--arakoon-clusters", CLUSTER].map(String::from));
    options
}

/// A running experiment, with the log read so far.
struct Trial {
    figures: Figures,
    prefix: String,
    log_end: u64,
    committed: Vec<Committed>,
    clients: Option<TransactionWorkload>,
}

impl Trial {
    fn start(name: &str, cluster: &Cluster, seed: u64) -> Trial {
        let figures = Figures::start(name);
        cluster.must_serve();
        let master = cluster.client_address(cluster.master());
        // Its bucket is created when a client first calls.
        cluster.on_client_host(|| {
            let mut arakoon = Arakoon::connect(master, CLUSTER).expect("the master listens");
            arakoon.set(b"made", b"1").expect("the master serves");
        });
        let prefix = format!("x{seed}");
        let log_end = cluster.decided_index();
        let nodes = cluster.client_addresses();
        let start = || TransactionWorkload::start(&nodes, &prefix, short_or_long(6, 12), seed);
        let clients = Some(cluster.on_client_host(start));
        Trial { figures, prefix, log_end, committed: Vec::new(), clients }
    }

    /// Injects a fault, waits for its effects, and reads the log after it, which may be truncated
    /// later.
    fn fault(&mut self, cluster: &mut Cluster, inject: impl FnOnce(&mut Cluster)) {
        std::thread::sleep(SECOND);
        inject(cluster);
        self.figures.faults += 1;
        cluster.must_serve();
        self.read_log(cluster);
    }

    fn read_log(&mut self, cluster: &Cluster) {
        let log_end = cluster.decided_index();
        let is_own_key = |key: &str| key.starts_with(&self.prefix);
        let committed = cluster.committed(self.log_end, log_end, &is_own_key);
        self.committed
            .extend(committed.unwrap_or_else(|why| panic!("{why}\n{}", cluster.describe())));
        self.log_end = log_end;
    }

    fn end(mut self, cluster: &Cluster) {
        std::thread::sleep(SECOND);
        let history = self.clients.take().expect("they are at work").stop();
        // Requests in flight are refused or decided within two leases.
        std::thread::sleep(two_leases(cluster, SECOND).unwrap_or_default());
        cluster.must_converge();
        self.read_log(cluster);
        let report = judge(&history.calls, &self.committed);
        let count = |has_outcome: fn(&CallOutcome<TransactionAnswer>) -> bool| {
            history.calls.iter().filter(|transaction| has_outcome(&transaction.outcome)).count()
                as u64
        };
        self.figures.ok = count(CallOutcome::is_acknowledged);
        self.figures.fail = count(|outcome| *outcome == CallOutcome::Refused);
        self.figures.info = count(|outcome| *outcome == CallOutcome::Unknown);
        for (name, count) in [
            ("updates", report.updates),
            ("late", report.late),
            ("failed_assertions", report.failed),
            ("reads", report.reads),
            ("loose_reads", report.weak_reads),
            ("expired", report.expired),
            ("violations", report.violations.len()),
        ] {
            self.figures.add(name, count);
        }
        self.figures.print();
        assert_eq!(history.unexpected, Vec::<String>::new());
        report.must_explain();
        let all = [report.updates, report.reads, report.weak_reads, report.expired, report.failed];
        assert!(
            all.iter().all(|count| *count > 0) && report.updates > 100,
            "almost nothing: {all:?}"
        );
        for front_end in FRONT_ENDS {
            let is_served = |transaction: &Transaction| {
                transaction.op.front_end == front_end
                    && matches!(transaction.outcome, Acknowledged(Done(_)))
            };
            assert!(history.calls.iter().any(is_served), "nobody was served by {front_end}");
        }
        must_reject_falsified(&history.calls, &self.committed);
    }
}

/// Positive control: the same history with one falsified answer or log entry is not explained.
fn must_reject_falsified(history: &[Transaction], committed: &[Committed]) {
    let must_reject =
        |what: &str, change: &dyn Fn(&mut Vec<Transaction>, &mut Vec<Committed>) -> bool| {
            let (mut history, mut committed) = (history.to_vec(), committed.to_vec());
            assert!(change(&mut history, &mut committed), "no place for {what}");
            assert!(!judge(&history, &committed).violations.is_empty(), "{what} is not seen");
        };
    must_reject("a lost update", &|_, log| {
        let first = log.iter_mut().find(|value| !value.effects.is_empty());
        first.map(|value| value.effects.clear()).is_some()
    });
    must_reject("an update that was done twice", &|_, log| {
        let last = log.iter().rev().find(|value| !value.effects.is_empty()).cloned();
        let index = log.last().map_or(0, |value| value.index) + 1;
        last.map(|value| log.push(Committed { index, ..value })).is_some()
    });
    let read = |transaction: &&mut Transaction, level: Level| {
        let is_get = matches!(transaction.op.steps[..], [TransactionStep::Get(_)]);
        let has_row = match &transaction.outcome {
            Acknowledged(Done(answers)) => {
                matches!(answers[..], [StepAnswer::Row(Some(_))])
            }
            _ => false,
        };
        transaction.op.level == level && is_get && has_row
    };
    for level in [Level::Consistent, Level::Dirty] {
        must_reject("a read of what nobody wrote", &|history, _| {
            let transaction = history.iter_mut().rev().find(|transaction| read(transaction, level));
            let falsified = Acknowledged(Done(vec![StepAnswer::Row(Some(b"lie".to_vec()))]));
            transaction.map(|transaction| transaction.outcome = falsified).is_some()
        });
    }
    must_reject("a pipeline that misses its own write", &|history, log| {
        let value_before = |at: &usize| value_before_pipelined_write(history, log, *at);
        let has_row = (1..history.len()).rev().find_map(|at| Some((at, value_before(&at)?)));
        let Some((at, before)) = has_row else { return false };
        history[at].outcome = Acknowledged(Done(vec![StepAnswer::Row(Some(before))]));
        true
    });
    must_reject("a torn range", &|history, _| {
        let rows = history.iter_mut().rev().find_map(|transaction| {
            match (&transaction.op.steps[..], &mut transaction.outcome) {
                ([TransactionStep::Range(_)], Acknowledged(Done(answers))) => match &mut answers[0]
                {
                    StepAnswer::Rows(rows) if rows.len() > 1 => Some(rows),
                    _ => None,
                },
                _ => None,
            }
        });
        let falsified = |rows: &mut Vec<(String, Vec<u8>)>| rows[0].1 = b"lie".to_vec();
        rows.map(falsified).is_some()
    });
    must_reject("a change of a watched key", &|history, _| falsify_watched_value(history));
    must_reject("a refused write that stands", &|history, _| {
        let wrote = |transaction: &&mut Transaction| {
            matches!(
                (&transaction.op.steps[..], &transaction.outcome),
                ([TransactionStep::Set(..)], Acknowledged(Done(_)))
            )
        };
        history
            .iter_mut()
            .find(wrote)
            .map(|transaction| transaction.outcome = CallOutcome::Refused)
            .is_some()
    });
}

/// Changes the value that a transaction asserts of a key that it watched. Returns false if none was
/// done.
fn falsify_watched_value(history: &mut [Transaction]) -> bool {
    let is_done = |transaction: &&mut Transaction| {
        transaction.op.front_end == "resp transaction"
            && matches!(transaction.outcome, Acknowledged(Done(_)))
    };
    let asserted = history.iter_mut().find(is_done).and_then(|transaction| {
        match transaction.op.steps.first_mut() {
            Some(TransactionStep::Assert(_, value)) => Some(value),
            _ => None,
        }
    });
    asserted.map(|value| *value = Some(b"lie".to_vec())).is_some()
}

/// Returns the value that a key held before a write of a pipeline, if the request at this index is
/// the next one and reads that key.
fn value_before_pipelined_write(
    history: &[Transaction],
    log: &[Committed],
    at: usize,
) -> Option<Vec<u8>> {
    let (write, read) = (&history[at - 1], &history[at]);
    let same_pipeline = (write.client, write.began) == (read.client, read.began);
    let ([TransactionStep::Set(key, value, None)], [TransactionStep::Get(read_key)]) =
        (&write.op.steps[..], &read.op.steps[..])
    else {
        return None;
    };
    if !same_pipeline || key != read_key || !matches!(read.outcome, Acknowledged(Done(_))) {
        return None;
    }
    let value_of = |effect: &ValueEffect| effect.row.as_ref().map(|(value, _)| value.clone());
    let values = log.iter().flat_map(|value| &value.effects).filter(|effect| effect.key == *key);
    let values: Vec<_> = values.filter_map(value_of).collect();
    let written = values.iter().position(|value_of| value_of == value)?;
    written.checked_sub(1).map(|previous| values[previous].clone())
}

#[test]
fn transactions_match_the_log_under_kills_and_pauses() {
    let name = "transactions, nodes die and pause";
    let _permit = experiment();
    let scratch = Scratch::new("cluster-transactions");
    let mut cluster = Cluster::start(&scratch, options());
    // One after the other: the log of a single long one would grow faster than it is read.
    for round in 0..short_or_long(1, 12) {
        let mut trial = Trial::start(name, &cluster, 91_000 + round as u64);
        trial.fault(&mut cluster, |cluster| {
            let master = cluster.master();
            cluster.kill(master);
            std::thread::sleep(SECOND / 2);
            cluster.start_node(master);
        });
        trial.fault(&mut cluster, |cluster| {
            let master = cluster.master();
            cluster.pause(master);
            std::thread::sleep(3 * SECOND);
            cluster.resume(master);
        });
        trial.fault(&mut cluster, |cluster| {
            let follower = cluster.follower();
            cluster.must_converge();
            cluster.make_master(follower);
        });
        trial.end(&cluster);
    }
}

#[test]
fn transactions_match_the_log_under_network_partitions() {
    let name = "transactions, cables are cut";
    if let Some(reason) = Network::missing() {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-transactions-cut");
    let mut cluster = Cluster::start(&scratch, options().with_switch());
    for round in 0..short_or_long(1, 12) {
        let mut trial = Trial::start(name, &cluster, 92_000 + round as u64);
        for pick_node in [Cluster::master, Cluster::follower] {
            trial.fault(&mut cluster, |cluster| {
                let node = pick_node(cluster);
                cluster.isolate(node);
                std::thread::sleep(4 * SECOND);
                cluster.heal();
            });
        }
        trial.end(&cluster);
    }
}

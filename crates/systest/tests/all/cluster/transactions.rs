//! Sequences with predicates, ranges, numbers, rows that expire, reads of every level and
//! pipelines, each key used by every front-end: one history under faults, which the log must
//! explain.

use super::{SECOND, two_leases};
use systest::checkers::transactions::{Committed, ValueEffect, judge};
use systest::client::Arakoon;
use systest::report::{Figures, skipped, times};
use systest::rigs::{Cluster, Network, Options, Scratch, experiment};
use systest::workload::CallOutcome;
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::transactions::TransactionAnswer::Done;
use systest::workload::transactions::{
    CLUSTER, Level, StepAnswer, Transaction, TransactionAnswer, TransactionStep,
    TransactionWorkload,
};

fn options() -> Options {
    let mut options = Options::of(3);
    options.words.extend(["--arakoon-clusters", CLUSTER].map(String::from));
    options
}

/// A running experiment, with the log read so far.
struct Trial {
    figures: Figures,
    prefix: String,
    upto: u64,
    committed: Vec<Committed>,
    clients: Option<TransactionWorkload>,
}

impl Trial {
    fn begin(name: &str, cluster: &Cluster, seed: u64) -> Trial {
        let figures = Figures::begin(name);
        cluster.must_serve();
        let master = cluster.client(cluster.master());
        // Its bucket is created when a client first calls.
        cluster.from_clients(|| {
            let mut arakoon = Arakoon::connect(master, CLUSTER).expect("the master listens");
            arakoon.set(b"made", b"1").expect("the master serves");
        });
        let prefix = format!("x{seed}");
        let upto = cluster.decided_upto();
        let nodes = cluster.clients();
        let start = || TransactionWorkload::start(&nodes, &prefix, times(6, 12), seed);
        let clients = Some(cluster.from_clients(start));
        Trial { figures, prefix, upto, committed: Vec::new(), clients }
    }

    /// Injects a fault, waits for its effects, and reads the log after it, which may be truncated
    /// later.
    fn fault(&mut self, cluster: &mut Cluster, cruel: impl FnOnce(&mut Cluster)) {
        std::thread::sleep(SECOND);
        cruel(cluster);
        self.figures.faults += 1;
        cluster.must_serve();
        self.take_log(cluster);
    }

    fn take_log(&mut self, cluster: &Cluster) {
        let upto = cluster.decided_upto();
        let mine = |key: &str| key.starts_with(&self.prefix);
        let committed = cluster.committed(self.upto, upto, &mine);
        self.committed.extend(committed.unwrap_or_else(|why| panic!("{why}\n{}", cluster.words())));
        self.upto = upto;
    }

    fn end(mut self, cluster: &Cluster) {
        std::thread::sleep(SECOND);
        let lived = self.clients.take().expect("they are at work").stop();
        // Requests in flight are refused or decided within two leases.
        std::thread::sleep(two_leases(cluster, SECOND).unwrap_or_default());
        cluster.must_settle();
        self.take_log(cluster);
        let report = judge(&lived.calls, &self.committed);
        let count = |wanted: fn(&CallOutcome<TransactionAnswer>) -> bool| {
            lived.calls.iter().filter(|one| wanted(&one.outcome)).count() as u64
        };
        self.figures.ok = count(CallOutcome::is_acknowledged);
        self.figures.fail = count(|it| *it == CallOutcome::Refused);
        self.figures.info = count(|it| *it == CallOutcome::Unknown);
        for (name, many) in [
            ("updates", report.updates),
            ("late", report.late),
            ("failed_assertions", report.failed),
            ("reads", report.reads),
            ("loose_reads", report.loose),
            ("expired", report.expired),
            ("violations", report.violations.len()),
        ] {
            self.figures.also(name, many);
        }
        self.figures.print();
        assert_eq!(lived.strange, Vec::<String>::new());
        report.must_explain();
        let all = [report.updates, report.reads, report.loose, report.expired, report.failed];
        assert!(
            all.iter().all(|many| *many > 0) && report.updates > 100,
            "almost nothing: {all:?}"
        );
        for front_end in
            ["resp", "resp pipeline", "http", "http sequence", "http session", "riak", "arakoon"]
        {
            let served = |one: &Transaction| {
                one.op.front_end == front_end && matches!(one.outcome, Acknowledged(Done(_)))
            };
            assert!(lived.calls.iter().any(served), "nobody was served by {front_end}");
        }
        lies_are_refused(&lived.calls, &self.committed);
    }
}

/// Positive control: the same history with one falsified answer or log entry is not explained.
fn lies_are_refused(history: &[Transaction], committed: &[Committed]) {
    let refused =
        |what: &str, change: &dyn Fn(&mut Vec<Transaction>, &mut Vec<Committed>) -> bool| {
            let (mut history, mut committed) = (history.to_vec(), committed.to_vec());
            assert!(change(&mut history, &mut committed), "no place for {what}");
            assert!(!judge(&history, &committed).violations.is_empty(), "{what} is not seen");
        };
    refused("a lost update", &|_, log| {
        let first = log.iter_mut().find(|value| !value.effects.is_empty());
        first.map(|value| value.effects.clear()).is_some()
    });
    refused("an update that was done twice", &|_, log| {
        let last = log.iter().rev().find(|value| !value.effects.is_empty()).cloned();
        let index = log.last().map_or(0, |value| value.index) + 1;
        last.map(|value| log.push(Committed { index, ..value })).is_some()
    });
    let read = |one: &&mut Transaction, level: Level| {
        let asked = matches!(one.op.steps[..], [TransactionStep::Get(_)]);
        let found = match &one.outcome {
            Acknowledged(Done(said)) => {
                matches!(said[..], [StepAnswer::Row(Some(_))])
            }
            _ => false,
        };
        one.op.level == level && asked && found
    };
    for level in [Level::Consistent, Level::Dirty] {
        refused("a read of what nobody wrote", &|history, _| {
            let one = history.iter_mut().rev().find(|one| read(one, level));
            let lie = Acknowledged(Done(vec![StepAnswer::Row(Some(b"lie".to_vec()))]));
            one.map(|one| one.outcome = lie).is_some()
        });
    }
    refused("a pipeline that misses its own write", &|history, log| {
        let behind = |at: &usize| missed(history, log, *at);
        let found = (1..history.len()).rev().find_map(|at| Some((at, behind(&at)?)));
        let Some((at, before)) = found else { return false };
        history[at].outcome = Acknowledged(Done(vec![StepAnswer::Row(Some(before))]));
        true
    });
    refused("a torn range", &|history, _| {
        let rows =
            history.iter_mut().rev().find_map(|one| match (&one.op.steps[..], &mut one.outcome) {
                ([TransactionStep::Range(_)], Acknowledged(Done(said))) => match &mut said[0] {
                    StepAnswer::Rows(rows) if rows.len() > 1 => Some(rows),
                    _ => None,
                },
                _ => None,
            });
        let lie = |rows: &mut Vec<(String, Vec<u8>)>| rows[0].1 = b"lie".to_vec();
        rows.map(lie).is_some()
    });
    refused("a refused write that stands", &|history, _| {
        let wrote = |one: &&mut Transaction| {
            matches!(
                (&one.op.steps[..], &one.outcome),
                ([TransactionStep::Set(..)], Acknowledged(Done(_)))
            )
        };
        history.iter_mut().find(wrote).map(|one| one.outcome = CallOutcome::Refused).is_some()
    });
}

/// Returns the value that a key held before a write of a pipeline, if the request at this index is
/// the next one and reads that key.
fn missed(history: &[Transaction], log: &[Committed], at: usize) -> Option<Vec<u8>> {
    let (write, read) = (&history[at - 1], &history[at]);
    let together = (write.client, write.began) == (read.client, read.began);
    let ([TransactionStep::Set(key, value, None)], [TransactionStep::Get(asked)]) =
        (&write.op.steps[..], &read.op.steps[..])
    else {
        return None;
    };
    if !together || key != asked || !matches!(read.outcome, Acknowledged(Done(_))) {
        return None;
    }
    let held = |effect: &ValueEffect| effect.row.as_ref().map(|(value, _)| value.clone());
    let all = log.iter().flat_map(|value| &value.effects).filter(|effect| effect.key == *key);
    let all: Vec<_> = all.filter_map(held).collect();
    let written = all.iter().position(|held| held == value)?;
    written.checked_sub(1).map(|before| all[before].clone())
}

#[test]
fn transactions_hold_while_nodes_die_and_pause() {
    let name = "transactions, nodes die and pause";
    let _permit = experiment();
    let scratch = Scratch::new("cluster-transactions");
    let mut cluster = Cluster::start(&scratch, options());
    let mut trial = Trial::begin(name, &cluster, 91);
    for _ in 0..times(1, 12) {
        trial.fault(&mut cluster, |cluster| {
            let master = cluster.master();
            cluster.kill(master);
            std::thread::sleep(SECOND / 2);
            cluster.begin(master);
        });
        trial.fault(&mut cluster, |cluster| {
            let master = cluster.master();
            cluster.pause(master);
            std::thread::sleep(3 * SECOND);
            cluster.wake(master);
        });
        trial.fault(&mut cluster, |cluster| {
            let follower = cluster.follower();
            cluster.must_settle();
            cluster.lead(follower);
        });
    }
    trial.end(&cluster);
}

#[test]
fn transactions_hold_while_cables_are_cut() {
    let name = "transactions, cables are cut";
    if let Some(why) = Network::missing() {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-transactions-cut");
    let mut cluster = Cluster::start(&scratch, options().behind_the_switch());
    let mut trial = Trial::begin(name, &cluster, 92);
    for _ in 0..times(1, 12) {
        for who in [Cluster::master, Cluster::follower] {
            trial.fault(&mut cluster, |cluster| {
                let node = who(cluster);
                cluster.isolate(node);
                std::thread::sleep(4 * SECOND);
                cluster.heal();
            });
        }
    }
    trial.end(&cluster);
}

//! F-41 and F-42: nodes that are away, and networks that fall apart.

use super::{Done, SECOND, Trial};
use proof::attentive::Plan;
use proof::report::{bound, times};
use proof::rigs::Cluster;
use std::time::{Duration, Instant};

/// So long it takes at most until a silent node is known to be.
pub const DETECTED: Duration = Duration::from_millis(2_500);

/// One node is away, others keep what it misses; one of those is killed with it in its hands.
pub fn handoff(cluster: &mut Cluster) -> Done {
    let mut trial = Trial::begin("F-41 hinted handoff", cluster, Plan::of(41));
    let (mut most, mut slowest) = (0.0_f64, Duration::ZERO);
    for round in 0..times(1, 5) {
        let (away, holder) = (5 - round % 4, 1 + (5 - round % 4) % 5);
        cluster.kill(away);
        std::thread::sleep(times(3, 60) as u32 * SECOND);
        most = most.max(cluster.hints());
        cluster.kill(holder);
        std::thread::sleep(SECOND / 2);
        cluster.begin(holder);
        std::thread::sleep(SECOND);
        most = most.max(cluster.hints());
        let begun = Instant::now();
        cluster.begin(away);
        cluster.must_reach_all();
        while cluster.hints() > 0.0 {
            assert!(begun.elapsed() < 60 * SECOND, "hints do not go home");
            std::thread::sleep(SECOND / 20);
        }
        slowest = slowest.max(begun.elapsed());
        trial.figures.faults += 2;
    }
    assert!(most > 0.0, "nobody kept anything for the node that was away");
    trial.figures.also("hints_most", most);
    trial.figures.also("home_after_ms", slowest.as_millis());
    trial.end(cluster)
}

/// Two nodes can't reach three others; clients reach all of them, and write everywhere.
pub fn halves(cluster: &Cluster) -> Done {
    let mut trial = Trial::begin("F-42 two and three nodes apart", cluster, Plan::of(42));
    let (mut spans, mut healed) = (Vec::new(), Instant::now());
    for round in 0..times(1, 5) {
        split(cluster, |node| (node + round) % 5 < 2);
        std::thread::sleep(DETECTED);
        let from = trial.clients.now();
        std::thread::sleep(times(5, 20) as u32 * SECOND);
        spans.push(((from, trial.clients.now()), round));
        cluster.heal();
        healed = Instant::now();
        trial.figures.faults += 1;
        cluster.must_reach_all();
        std::thread::sleep(SECOND);
    }
    // Clients went on until now.
    let healed = healed.elapsed();
    let mut done = trial.end(cluster);
    for (name, few) in [("two", true), ("three", false)] {
        let side = |round: usize| move |at: usize| ((at + 1 + round) % 5 < 2) == few;
        let counts = spans.iter().map(|(span, round)| done.history.answered(*span, side(*round)));
        let (answered, all) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let share = 100.0 * answered as f64 / all.max(1) as f64;
        done.figures.also(&format!("answered_by_{name}"), format!("{share:.2}%_of_{all}"));
        let words = &done.history.words;
        assert!(all > 100 && share >= 99.9, "{answered} of {all} were answered: {words:?}");
    }
    bound("F-42 until all copies are equal, s", (healed + done.equal).as_secs_f64(), 30.0);
    done
}

/// Nothing passes between some nodes and all others.
pub fn split(cluster: &Cluster, few: impl Fn(usize) -> bool) {
    for one in cluster.nodes().filter(|node| few(*node)) {
        cluster.nodes().filter(|node| !few(*node)).for_each(|other| cluster.cut(one, other));
    }
}

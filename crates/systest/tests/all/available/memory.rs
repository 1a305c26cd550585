//! F-44: a node that has lost rows that it wrote, and writes on.

use super::Done;
use systest::report::{Figures, times};
use systest::rigs::{Cluster, Scratch, must, text, wait};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::{ManualClient, ShownValues};

/// Number of keys of each kind.
const KEYS: usize = 12;
const PLACE: &str = "available/trial44";

/// A node loses rows without a trace, and writes on. Anti-entropy is off meanwhile.
pub fn rows_lost(cluster: &mut Cluster) -> Done {
    let mut figures = Figures::begin("F-44 rows lost without a trace, then written");
    let mut hand = ManualClient::new(&cluster.clients(), PLACE, "hand");
    let mut lost = 0;
    for round in 0..times(1, 6) {
        let forgetful = 1 + round % 3;
        lost += forgets(cluster, &mut hand, forgetful, round);
        figures.faults += 1;
    }
    figures.also("rows_taken_away", lost);
    Done::of(figures, PLACE, hand.history())
}

/// Writes keys through one node, some several times; removes their rows there; writes them again
/// there: without a context, with an old one, with a new one, as deletes. Returns the number of
/// rows removed.
fn forgets(cluster: &mut Cluster, hand: &mut ManualClient, node: usize, round: usize) -> usize {
    let key = |kind: &str, at: usize| format!("{kind}-{round}-{at:02}");
    let kinds = ["blind", "known", "fresh", "deleted", "again", "unread"];
    let mut known = Vec::new();
    for kind in kinds {
        for at in 0..KEYS {
            let (key, mut seen) = (key(kind, at), ShownValues::default());
            for _ in 0..1 + at % 4 {
                assert_eq!(hand.put(node, &key, &seen, "w=all"), Acknowledged(()));
                seen = hand.get(node, &key, "").expect("it is read");
            }
            if kind == "again" {
                assert_eq!(hand.delete(node, &key, &seen, "w=all"), Acknowledged(()));
            }
            known.push(seen);
        }
    }
    assert_eq!(cluster.stop(node), Some(0));
    let lost = cluster
        .lose(node, PLACE, |key| !key.starts_with("unread") && key.contains(&format!("-{round}-")));
    assert_eq!(lost, (kinds.len() - 1) * KEYS, "every row is there to be lost");
    cluster.begin(node);
    cluster.must_settle();
    cluster.must_reach_all();
    hand.connect_anew();
    for (kind, known) in kinds.iter().zip(known.chunks(KEYS)) {
        for (at, known) in known.iter().enumerate() {
            let key = key(kind, at);
            let told = match *kind {
                // No value may be lost, for this write has seen none.
                "blind" | "again" => hand.put(node, &key, &ShownValues::default(), ""),
                "known" => hand.put(node, &key, known, ""),
                "deleted" => hand.delete(node, &key, known, ""),
                _ => {
                    let seen = hand.get(node, &key, "").expect("it is read");
                    assert_eq!(seen.values, known.values, "{key}: what it lost, the others have");
                    hand.put(node, &key, &seen, "")
                }
            };
            assert_eq!(told, Acknowledged(()), "{key}");
        }
    }
    lost
}

/// An operator puts an old copy of a data directory back without a command that says so.
pub fn old_copy(cluster: &mut Cluster, scratch: &Scratch) -> Done {
    let place = "available/copied";
    let mut figures = Figures::begin("F-44 an old copy of a directory put back");
    let mut hand = ManualClient::new(&cluster.clients(), place, "hand");
    let key = |at: usize| format!("copy-{at:03}");
    let keys = times(64, 200);
    let blind = |hand: &mut ManualClient, node: usize| {
        let none = ShownValues::default();
        (0..keys).filter(|at| hand.put(node, &key(*at), &none, "") == Acknowledged(())).count()
    };
    // The vnodes must exist before the copy is made.
    for at in 0..keys {
        assert_eq!(
            hand.put(3, &format!("before-{at:03}"), &ShownValues::default(), ""),
            Acknowledged(())
        );
    }
    assert_eq!(cluster.stop(3), Some(0));
    let data = cluster.how(3).data.clone();
    let kept = scratch.join("kept");
    must(&["cp", "-a", text(&data), text(&kept)]);
    cluster.begin(3);
    cluster.must_settle();
    cluster.must_reach_all();
    hand.connect_anew();
    // The copy lacks the dots of these writes.
    assert_eq!(blind(&mut hand, 3), keys);
    cluster.kill(3);
    let newest = scratch.join("newest");
    must(&["mv", text(&data), text(&newest)]);
    must(&["cp", "-a", text(&kept), text(&data)]);
    figures.faults += 1;
    // The others refuse the node, and it ends; in its next incarnation it refuses itself.
    if cluster.try_to_begin(3).is_ok() {
        wait("the copy's end", || match cluster.server(3).alive() {
            true => Err("it runs".into()),
            false => Ok(()),
        });
        cluster.kill(3);
    }
    let refusal = cluster.try_to_begin(3).expect_err("it knows that it is an old copy");
    figures.also("exit_code", refusal.code.unwrap_or_default());
    // The newest directory is accepted as before.
    std::fs::remove_dir_all(&data).expect("it is ours");
    must(&["mv", text(&newest), text(&data)]);
    cluster.begin(3);
    cluster.must_settle();
    cluster.must_reach_all();
    hand.connect_anew();
    assert_eq!(blind(&mut hand, 3), keys);
    Done::of(figures, place, hand.history())
}

//! Cost of groups: writes and processor time with few and with many groups, and their cost when
//! idle. Not run by default:
//! `cargo test --release -p node --lib cost -- --ignored --nocapture`.
//!
//! All nodes are in this one process, so the figures are those of the whole cluster. `COUNTS` (say
//! `1,10,100,500`) and `LASTS` in the environment say how many groups and how many seconds.

use super::many::{Cluster, ask};
use base::{BucketName, Call, GroupId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Clients that write, each one request at a time.
const CLIENTS: usize = 64;
/// The kernel's ticks of processor time.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of this process so far, in seconds.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let behind = stat.rsplit_once(')').expect("a name stands in it").1;
    let fields: Vec<_> = behind.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

/// Memory of this process, in KiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has some");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.into())
}

async fn cost(nodes: usize, groups: usize, lasts: Duration) {
    let cluster = Arc::new(Cluster::new(nodes).await);
    let before = memory();
    let mut buckets = Vec::new();
    for number in 0..groups {
        let created = cluster.create(None, &[]).await;
        buckets.push(cluster.bucket(&format!("b{number}"), created.group).await);
    }
    let mut masters = Vec::new();
    for number in 0..groups as u32 {
        masters.push(cluster.master(GroupId(number + 2).0).await);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (began, spent) = (Instant::now(), processor());
    tokio::time::sleep(lasts).await;
    let idle = (processor() - spent) / began.elapsed().as_secs_f64();
    let grown = memory().saturating_sub(before);
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let own: Vec<(BucketName, usize)> = (0..groups)
            .map(|at| (client + at) % groups)
            .map(|at| (buckets[at].clone(), masters[at]))
            .collect();
        let (cluster, stop, written) = (cluster.clone(), stop.clone(), written.clone());
        clients.push(tokio::spawn(async move {
            for (round, (bucket, node)) in own.iter().cycle().enumerate() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let value = "x".repeat(100);
                let call = Call::Update(super::set(&format!("{client:08}{round:012}"), &value));
                if ask(cluster.node(*node), bucket, call).await.is_ok() {
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (began, spent, first) = (Instant::now(), processor(), written.load(Ordering::Relaxed));
    tokio::time::sleep(lasts).await;
    let wrote = (written.load(Ordering::Relaxed) - first) as f64;
    let (took, used) = (began.elapsed().as_secs_f64(), processor() - spent);
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("it ends");
    }
    println!(
        "| {nodes} | {groups} | {:.0} | {:.0} | {:.2} | {:.1} |",
        wrote / took,
        used / wrote * 1e6,
        idle * 100.0,
        grown as f64 / groups as f64,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn write_and_idle_cost_by_number_of_groups() {
    let lasts = Duration::from_secs(setting("LASTS", "5").parse().expect("a number"));
    println!("| nodes | groups | writes/s | us of processor per write | idle % | KiB a group |");
    println!("|---|---|---|---|---|---|");
    for nodes in [1, 3] {
        for groups in setting("COUNTS", "1,10,100,500").split(',') {
            cost(nodes, groups.parse().expect("a number"), lasts).await;
        }
    }
}

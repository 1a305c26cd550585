//! Runs of the same mixes on the database itself: six processes on this machine, driven over Riak's
//! HTTP interface, each key with three replicas, reads and writes of two.

use super::options::StudyOptions;
use super::outcome::Product;
use super::study::{self, Mix, NODES};
use bench::Process;
use load_generator::error::BenchError;
use load_generator::load::{Causality, Collected, new_histogram};
use load_generator::report::Percentiles;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time limit for six nodes to form a cluster.
const READY_MAX: Duration = Duration::from_secs(120);
/// Distance between the ports of two nodes of `credenza dev`.
const PORT_STEP: u16 = 10;

/// Runs every mix with every size of values.
pub fn run(
    options: &StudyOptions,
    time: Duration,
    folder: &Path,
    report: &mut dyn FnMut(&str),
) -> Result<Vec<Product>, BenchError> {
    // The limit is raised before the nodes start, which inherit it.
    load_generator::machine::allow_many_files();
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    let (_cluster, port) = start_cluster(&folder)?;
    let mut all = Vec::new();
    for value_bytes in &options.value_bytes {
        for mix in study::mixes() {
            let bucket = all.len();
            let settings = settings(options, &mix, *value_bytes, (port, bucket), time);
            let run = load_generator::job::measure("the database", &settings)?;
            let product = outcome(&mix, *value_bytes, &run);
            report(&format!(
                "{:<15} {value_bytes:>5} bytes  {:<16} {:>6.0}/s  clock {:>6.1}  values {:.3}  \
                 failed {}\n",
                mix.name,
                "the database",
                product.throughput,
                product.clock_mean,
                product.values,
                product.failed
            ));
            all.push(product);
        }
    }
    Ok(all)
}

/// Starts six nodes as one cluster; returns their process and the port of the first.
fn start_cluster(folder: &Path) -> Result<(Process, u16), BenchError> {
    let server = program::sibling_program("credenza");
    let (data, log) = (folder.join("nodes"), folder.join("nodes.log"));
    std::fs::create_dir_all(&data).map_err(|error| error.to_string())?;
    let port = free_ports()?;
    let arguments = ["dev", "--nodes", &NODES.to_string(), "--port", &port.to_string(), "--data"];
    let mut command = vec![server.display().to_string()];
    command.extend(arguments.map(String::from));
    command.push(data.display().to_string());
    let mut process = Process::start(&command, None, &data, &log)?;
    let started = Instant::now();
    // `credenza dev` prints this when the ring is assigned.
    let is_ready =
        || std::fs::read_to_string(&log).is_ok_and(|output| output.contains("one cluster"));
    while !is_ready() {
        process.check()?;
        if started.elapsed() > READY_MAX {
            let text = format!("six nodes did not become a cluster; see {}", log.display());
            return Err(BenchError::unavailable(text));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok((process, port))
}

/// Returns a port from which on every node's ports are free.
fn free_ports() -> Result<u16, BenchError> {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let first = first.map_err(|error| error.to_string())?.port();
        let ports = (0..NODES as u16).map(|node| first.checked_add(node * PORT_STEP + 1));
        let free = |port: Option<u16>| {
            let port = port.filter(|port| *port < 65_000);
            port.is_some_and(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        };
        let more_ports = (1..NODES as u16).map(|node| first.checked_add(node * PORT_STEP));
        if ports.chain(more_ports).all(free) {
            return Ok(first);
        }
    }
    Err(BenchError::unavailable("there are no free ports for six nodes"))
}

/// Returns the load tool's settings of one mix.
fn settings(
    options: &StudyOptions,
    mix: &Mix,
    value_bytes: usize,
    (port, bucket): (u16, usize),
    time: Duration,
) -> String {
    let addresses: Vec<_> =
        (0..NODES as u16).map(|node| format!("127.0.0.1:{}", port + node * PORT_STEP)).collect();
    let [gets, puts, updates] = mix.weights;
    let StudyOptions { clients, keys, seed, .. } = options;
    format!(
        "driver = 'riak'\nriak_addresses = {addresses:?}\nriak_path = '/buckets/dvv{bucket}/keys'\n\
         riak_read_query = 'r=2'\nriak_write_query = 'w=2'\nconcurrent = {clients}\n\
         think_time = '50ms'\nduration = '{}ms'\nreport_interval = '1s'\nrng_seed = {seed}\n\
         key_generator = ['int_to_str', ['truncated_pareto_int', {keys}]]\n\
         value_generator = ['fixed_bin', {value_bytes}]\n\
         operations = [['get', {gets}], ['put', {puts}], ['update', {updates}]]",
        time.as_millis()
    )
}

fn outcome(mix: &Mix, value_bytes: usize, run: &Collected) -> Product {
    let (mut reads, mut writes) = (new_histogram(), new_histogram());
    let mut causality = Causality::default();
    let same_bounds = "all histograms have the same bounds";
    for operation in &run.operations {
        match operation.label.as_str() {
            "get" => reads.add(&operation.latency).expect(same_bounds),
            "put" => writes.add(&operation.latency).expect(same_bounds),
            _ => {}
        }
        for (all, times) in [&mut reads, &mut writes].into_iter().zip(&operation.call_times) {
            times.iter().for_each(|times| all.add(times).expect(same_bounds));
        }
        operation.causality.iter().for_each(|counted| causality.add(counted));
    }
    Product {
        mix: mix.name.into(),
        value_bytes,
        seconds: run.seconds,
        throughput: run.throughput(),
        reads: Percentiles::from_histogram(&reads),
        writes: Percentiles::from_histogram(&writes),
        clock_mean: causality.clock_bytes.mean(),
        clock_p99: causality.clock_bytes.value_at_quantile(0.99),
        values: causality.values.mean(),
        objects: causality.values.len(),
        failed: run.failed(),
    }
}

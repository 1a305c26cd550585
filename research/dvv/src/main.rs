//! The case study: version vectors, dotted version vectors and DVV sets compared.
//!
//! It follows R. Gonçalves, P. S. Almeida, C. Baquero, V. Fonte, N. Preguiça, *Evaluating Dotted
//! Version Vectors in Riak*, INForum 2011: six nodes, three replicas, reads and writes of two,
//! 50,000 keys, 500 clients, values of 1 KB and 5 KB, two generic mixes and TPC-W's three; an
//! update is a get, 50 ms of thinking, and a put with the context that was read. All kinds of clock
//! get the same operations in simulated time. Beside them the true history is recorded, and every
//! object that is returned is checked against it.
//!
//! Promises: the same options give the same counts and the same latencies, on every machine; only
//! the figures named this machine's time are measured here.
//! Never: is shipped; touches a server that it did not start.
//! Read next: `study.rs`, `world/mod.rs`, `kinds/mod.rs`, `truth.rs`, then `tables.rs`.

mod figures;
mod growth;
mod kinds;
mod measured;
mod options;
mod outcome;
mod product;
mod run;
mod study;
mod tables;
#[cfg(test)]
mod tests;
mod truth;
mod world;

use clap::CommandFactory;
use load_generator::error::BenchError;
use options::StudyArguments;
use std::process::ExitCode;

/// Allocator of the server, so that clocks cost the same here as there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = StudyArguments::command();
    program::run(
        "dvv-study",
        command,
        |_, _| None,
        |arguments: &StudyArguments| arguments.json,
        study,
    )
}

fn study(arguments: StudyArguments) -> Result<(), BenchError> {
    // A failed print is ignored: the results are in files.
    let mut print_line = |line: &str| drop(load_generator::console::print(line));
    let (folder, text) = run::run(&arguments.options()?, &mut print_line)?;
    Ok(load_generator::console::print(&format!("\n{text}\nwritten to {}\n", folder.display()))?)
}

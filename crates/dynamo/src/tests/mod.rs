//! Tests of gets, puts and lists at one coordinator: the other nodes are played by the test, which
//! sees every question and decides about every answer and about the time.

mod coverage_reads;
mod gets;
mod list_cost;
mod list_model;
mod puts;
mod test_node;

pub(crate) use test_node::ring_of;

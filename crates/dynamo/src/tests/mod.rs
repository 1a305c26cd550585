//! Tests of one node: of gets, puts and lists at one coordinator, where the test plays the other
//! nodes, sees every question and decides about every answer and about the time; and of its store,
//! with the log of what it writes.

mod coverage_reads;
mod feed_bridges;
mod feed_laws;
mod gets;
mod index_laws;
mod index_queries;
mod index_reads;
mod index_scrub;
mod key_index_reads;
mod key_spaces;
mod list_cost;
mod list_model;
mod logged_node;
mod puts;
mod reaped_rows;
mod row_changes;
mod test_node;

pub(crate) use test_node::ring_of;

//! Stories, laws and examples of consensus.

mod cluster;
mod examples;
mod laws;
mod machine;
mod stories;

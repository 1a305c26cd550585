//! Stories, laws and examples of consensus.

mod examples;
mod laws;
mod machine;
mod stories;

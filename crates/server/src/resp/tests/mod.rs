//! Tests of this front-end as a whole: frames of all kinds, patterns, outputs.

mod conversations;
mod frames;
mod hostile;
mod indexes;
mod limits;
mod malformed;
mod multi_key;
mod outputs;
mod patterns;
mod pipelines;
mod random;
mod runs;
mod siblings;
mod test_client;
mod transactions;
mod windows;

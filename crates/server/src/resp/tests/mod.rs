//! Tests of this front-end as a whole: frames of all kinds, patterns, outputs.

mod conversations;
mod frames;
mod hostile;
mod limits;
mod malformed;
mod outputs;
mod patterns;
mod pipelines;
mod random;
mod several;
mod siblings;
mod test_client;

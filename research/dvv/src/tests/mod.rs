//! The study is tried on small loads: what is exact must be, what is not must be seen to be.

mod clocks;
mod runs;

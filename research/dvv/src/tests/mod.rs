//! Tests of the study with small loads: exact clocks show no error, inexact ones must show theirs.

mod clocks;
mod runs;

//! Program that libFuzzer drives: `./check fuzz SECONDS [TARGET]` builds and runs it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::run_guided(input));

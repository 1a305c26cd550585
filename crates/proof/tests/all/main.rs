//! The one test binary of the house.

mod supply;
mod tidy;
mod tidy_faults;

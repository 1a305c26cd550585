//! The one test binary of the house.

//! Memory that an input takes: the allocator counts what is in use, and the peak.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Runs `body` and returns its result, with the bytes by which memory in use grew at its peak. All
/// threads count.
pub fn measure_peak<T>(body: impl FnOnce() -> T) -> (T, usize) {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let result = body();
    (result, ALLOCATOR.peak_usage().saturating_sub(before))
}

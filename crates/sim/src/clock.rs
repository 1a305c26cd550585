//! Clocks of a simulated node: they start at any value, run at their own rate, and can stand still
//! while their machine is paused.

/// Rate of an exact clock, in microseconds per simulated second.
const RATE: u64 = 1_000_000;

/// Monotonic clock and wall clock of one node.
#[derive(Clone, Copy, Debug)]
pub struct SimClock {
    /// Reading of the monotonic clock at simulated time 0, in nanoseconds.
    pub ahead_ns: u64,
    /// Rate of the monotonic clock, in microseconds per simulated second.
    pub rate: u64,
    /// Error of the wall clock, in milliseconds.
    pub wall_offset_ms: i64,
    /// End of the node's pause, in microseconds of simulated time: it does nothing before.
    pub paused_until: u64,
}

impl SimClock {
    /// Returns a clock with this lead in microseconds, this rate and an exact wall clock.
    pub fn new(ahead_us: u64, rate: u64) -> SimClock {
        SimClock { ahead_ns: ahead_us * 1_000, rate, wall_offset_ms: 0, paused_until: 0 }
    }

    /// Returns the reading of the monotonic clock, in nanoseconds.
    pub fn monotonic_ns(&self, now_us: u64) -> u64 {
        let elapsed = u128::from(now_us) * u128::from(self.rate) / u128::from(RATE / 1_000);
        self.ahead_ns + elapsed as u64
    }

    /// Returns the simulated microseconds in which the monotonic clock advances by `own_us`,
    /// rounded up.
    pub(crate) fn real_us(&self, own_us: u128) -> u64 {
        (own_us * u128::from(RATE)).div_ceil(u128::from(self.rate)) as u64
    }

    /// Sets the monotonic clock back by the length of a pause, as a suspended virtual machine does.
    pub fn suspend(&mut self, time_us: u64) {
        self.ahead_ns = self.ahead_ns.saturating_sub(time_us * self.rate / RATE * 1_000);
    }

    /// Changes the rate of the monotonic clock from now on; its reading does not jump.
    pub fn set_rate(&mut self, now_us: u64, rate: u64) {
        let reading = self.monotonic_ns(now_us);
        self.rate = rate;
        self.ahead_ns = 0;
        self.ahead_ns = reading - self.monotonic_ns(now_us);
    }

    /// Sets this thread's clock to the reading of the monotonic clock.
    pub fn enter(&self, now_us: u64) {
        runtime::world::set_time(Some(self.monotonic_ns(now_us)));
    }
}

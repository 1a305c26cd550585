//! Clocks of a simulated node: they begin anywhere, run at their own rate, and stand still while
//! their machine does.

/// What a clock gains in a simulated second if it is right, millionths of a second.
const RATE: u64 = 1_000_000;

/// A node's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SimClock {
    /// Its monotonic clock at the beginning of the history, nanoseconds.
    pub ahead_ns: u64,
    /// How fast the monotonic clock runs, millionths of simulated time.
    pub rate: u64,
    /// The error of its wall clock, milliseconds.
    pub wall_off_ms: i64,
    /// The node does nothing before this time, microseconds.
    pub paused_until: u64,
}

impl SimClock {
    /// A clock that is so many microseconds ahead, with this rate and a right wall clock.
    pub fn new(ahead_us: u64, rate: u64) -> SimClock {
        SimClock { ahead_ns: ahead_us * 1_000, rate, wall_off_ms: 0, paused_until: 0 }
    }

    /// Returns what the monotonic clock shows, nanoseconds.
    pub fn monotonic_ns(&self, now_us: u64) -> u64 {
        let run = u128::from(now_us) * u128::from(self.rate) / u128::from(RATE / 1_000);
        self.ahead_ns + run as u64
    }

    /// Returns how long it takes until the monotonic clock has gone on by so much, microseconds.
    pub fn real_us(&self, own_us: u128) -> u64 {
        (own_us * u128::from(RATE)).div_ceil(u128::from(self.rate)) as u64
    }

    /// Sets the clock back by the time that its machine stood still, as a hypervisor's pause does.
    pub fn stand_still(&mut self, time_us: u64) {
        self.ahead_ns = self.ahead_ns.saturating_sub(time_us * self.rate / RATE * 1_000);
    }

    /// Has the monotonic clock run at another rate from now on.
    pub fn set_rate(&mut self, now_us: u64, rate: u64) {
        let shows = self.monotonic_ns(now_us);
        self.rate = rate;
        self.ahead_ns = 0;
        self.ahead_ns = shows - self.monotonic_ns(now_us);
    }

    /// Sets this thread's clock to what the monotonic clock shows.
    pub fn enter(&self, now_us: u64) {
        runtime::world::set_time(Some(self.monotonic_ns(now_us)));
    }
}

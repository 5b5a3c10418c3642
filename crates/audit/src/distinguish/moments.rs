//! Mean, spread and extremes of numbers that pass by once.

/// Sums over some numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Moments {
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { count: 0.0, sum: 0.0, squares: 0.0, min, max }
    }
}

impl Moments {
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds a yes as 1 and a no as 0; nothing if there is no answer.
    pub(super) fn add_share(&mut self, answer: Option<bool>) {
        if let Some(answer) = answer {
            self.add(f64::from(u8::from(answer)));
        }
    }

    /// Adds what another has.
    pub(super) fn join(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(super) fn count(&self) -> f64 {
        self.count
    }

    pub(super) fn mean_or(&self, none: f64) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { none }
    }

    /// The standard deviation; 0 of nothing.
    pub(super) fn spread(&self) -> f64 {
        let mean = self.mean_or(0.0);
        (self.squares / self.count.max(1.0) - mean * mean).max(0.0).sqrt()
    }

    pub(super) fn min_or(&self, none: f64) -> f64 {
        if self.count > 0.0 { self.min } else { none }
    }

    pub(super) fn max_or(&self, none: f64) -> f64 {
        if self.count > 0.0 { self.max } else { none }
    }
}

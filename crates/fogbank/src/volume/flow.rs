//! What is decided whenever a volume is served: how its messages leave.

use std::time::Duration;

use fogbank_oram::immediate::{LinkRate, Rate};

use crate::args::FlowArgs;
use crate::error::{Error, Result};

/// How the messages of a served volume leave. Public.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// A fixed rate, if there is one.
    pub rate: Option<Rate>,
    /// What the link carries.
    pub pace: LinkRate,
    /// Bytes of write-backs under way at once.
    pub write_behind: Option<u64>,
    /// How long a volume of epochs goes on without a client; for ever if it is not said.
    pub rest_after: Option<Duration>,
}

impl Flow {
    /// What was asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] for what is outside the limits.
    pub fn of(args: &FlowArgs) -> Result<Self> {
        let write_behind = args.write_behind.map(|bytes| bytes.as_u64());
        let rate = args.fixed_rate.map(|per_s| fixed_rate(per_s, args.tick_ms)).transpose()?;
        Ok(Self { rate, pace: args.pace.pace()?, write_behind, rest_after: None })
    }

    /// The flags that were given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let flags = [
            (FIXED_RATE, self.rate.is_some()),
            (SEND_MB_S, self.pace.up_bytes_per_s.is_some()),
            (RECEIVE_MB_S, self.pace.down_bytes_per_s.is_some()),
            (WRITE_BEHIND, self.write_behind.is_some()),
            (REST_AFTER, self.rest_after.is_some()),
        ];
        flags.into_iter().filter_map(|(flag, given)| given.then_some(flag))
    }
}

const FIXED_RATE: &str = "--fixed-rate";
const SEND_MB_S: &str = "--send-mb-s";
const RECEIVE_MB_S: &str = "--receive-mb-s";
const WRITE_BEHIND: &str = "--write-behind";
const REST_AFTER: &str = "--rest-after";

/// What an engine knows that serves accesses as they come.
pub(crate) const OF_ACCESSES: &[&str] = &[FIXED_RATE, SEND_MB_S, RECEIVE_MB_S, WRITE_BEHIND];
/// What an engine of epochs knows.
pub(crate) const OF_EPOCHS: &[&str] = &[REST_AFTER];

fn fixed_rate(per_s: u64, tick_ms: u64) -> Result<Rate> {
    let per_tick = per_s.checked_mul(tick_ms).filter(|thousandths| *thousandths > 0);
    let Some(accesses) = per_tick.filter(|n| n.is_multiple_of(1000)).map(|n| n / 1000) else {
        return Err(Error::Usage(format!(
            "--fixed-rate {per_s} is no whole number of accesses every --tick-ms {tick_ms}; change \
             one of the two, the rate to a multiple of {}",
            1000 / greatest_common_divisor(tick_ms.max(1), 1000)
        )));
    };
    let interval = tick_ms.checked_mul(1_000_000);
    let interval =
        interval.ok_or_else(|| Error::Usage(format!("--tick-ms {tick_ms} is too long")))?;
    Ok(Rate { interval, accesses: accesses as usize })
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::PaceArgs;

    #[test]
    fn a_rate_fits_into_its_ticks() {
        let rate = fixed_rate;
        assert_eq!(rate(1000, 10).unwrap(), Rate { interval: 10_000_000, accesses: 10 });
        for (per_s, tick_ms) in
            [(0, 10), (10, 0), (1, 10), (150, 10), (u64::MAX, 10), (1, 18_000_000_000_000_000_000)]
        {
            assert!(rate(per_s, tick_ms).is_err(), "{per_s} {tick_ms}");
        }
        for (send_mb_s, receive_mb_s) in [(Some(0.0), None), (None, Some(-1.0))] {
            let pace = PaceArgs { send_mb_s, receive_mb_s };
            let args = FlowArgs { fixed_rate: None, tick_ms: 10, pace, write_behind: None };
            assert!(Flow::of(&args).is_err(), "{args:?}");
        }
    }
}

//! The link to a store as flags: what `plan` reckons with and what benchmarks shape, and the pace
//! at which an engine sends.

use std::time::Duration;

use clap::Args;
use fogbank_env::within;
use fogbank_oram::immediate::LinkRate;
use fogbank_store::Link;

use crate::error::Result;
use crate::limits;

/// The link to the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub struct LinkArgs {
    /// Milliseconds of a round trip without load; plan assumes some if the store is a cloud.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = within(limits::DELAY_MS))]
    pub rtt_ms: f64,
    /// Bandwidth towards the store, in MB (10^6 bytes) a second [unlimited].
    #[arg(long, value_name = "MB/S", value_parser = within(limits::MB_S))]
    pub up_mb_s: Option<f64>,
    /// Bandwidth from the store, in MB (10^6 bytes) a second [unlimited].
    #[arg(long, value_name = "MB/S", value_parser = within(limits::MB_S))]
    pub down_mb_s: Option<f64>,
    /// Milliseconds that the store takes for a call that only asks.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = within(limits::DELAY_MS))]
    pub read_ms: f64,
    /// Milliseconds that it takes for a call that changes something.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = within(limits::DELAY_MS))]
    pub write_ms: f64,
    /// Up to so many milliseconds more for a round trip, evenly distributed.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = within(limits::DELAY_MS))]
    pub jitter_ms: f64,
    /// The share of calls that lose a packet and wait for it, in steps of 0.000001.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = within(limits::SHARE))]
    pub loss: f64,
    /// Milliseconds that such a call waits [200].
    #[arg(long, value_name = "MS", requires = "loss", value_parser = within(limits::DELAY_MS))]
    pub loss_ms: Option<f64>,
}

impl LinkArgs {
    /// A link of this round trip that costs nothing else.
    pub fn of_round_trip(rtt_ms: f64) -> Self {
        Self { rtt_ms, ..Self::default() }
    }

    /// Whether it delays anything.
    pub fn is_instant(&self) -> bool {
        *self == Self::default()
    }

    /// The link in words.
    pub fn words(&self) -> String {
        let rate =
            |rate: Option<f64>| rate.map_or("unlimited".into(), |mb_s| format!("{mb_s} MB/s"));
        let mut words = format!(
            "round trips of {} ms, {} up, {} down",
            self.rtt_ms,
            rate(self.up_mb_s),
            rate(self.down_mb_s)
        );
        for (what, figure, unit) in [
            ("jitter up to", self.jitter_ms, " ms"),
            ("a read takes", self.read_ms, " ms"),
            ("a write takes", self.write_ms, " ms"),
            ("loss", self.loss, ""),
        ] {
            if figure != 0.0 {
                words += &format!(", {what} {figure}{unit}");
            }
        }
        if let Some(ms) = self.loss_ms {
            words += &format!(" of {ms} ms");
        }
        words
    }

    /// Milliseconds that a call waits which has lost a packet.
    pub fn loss_ms(&self) -> f64 {
        self.loss_ms.unwrap_or(Link::RESEND.as_secs_f64() * 1e3)
    }

    /// The link as a store wrapper shapes it.
    ///
    /// # Errors
    /// [`Error::Usage`] for figures that are no times, rates or shares.
    pub fn link(&self) -> Result<Link> {
        Ok(Link {
            round_trip: duration("--rtt-ms", self.rtt_ms)?,
            jitter: duration("--jitter-ms", self.jitter_ms)?,
            read: duration("--read-ms", self.read_ms)?,
            write: duration("--write-ms", self.write_ms)?,
            up_bytes_per_s: rate("--up-mb-s", self.up_mb_s)?,
            down_bytes_per_s: rate("--down-mb-s", self.down_mb_s)?,
            losses_per_million: per_million(self.loss)?,
            resend: duration("--loss-ms", self.loss_ms())?,
        })
    }
}

/// At which pace messages leave. Public.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub struct PaceArgs {
    /// MB (10^6 bytes) a second at which write-backs leave: a little less than the link carries, so
    /// that nothing else waits in it behind them [bench: 19/20 of the link; volumes: no limit].
    #[arg(long, value_name = "MB/S", value_parser = within(limits::MB_S))]
    pub send_mb_s: Option<f64>,
    /// MB (10^6 bytes) a second for which paths are asked, the same the other way [as --send-mb-s].
    #[arg(long, value_name = "MB/S", value_parser = within(limits::MB_S))]
    pub receive_mb_s: Option<f64>,
}

impl PaceArgs {
    /// The pace as an engine keeps it.
    ///
    /// # Errors
    /// [`Error::Usage`] for figures that are no rates.
    pub fn pace(&self) -> Result<LinkRate> {
        Ok(LinkRate {
            up_bytes_per_s: rate("--send-mb-s", self.send_mb_s)?,
            down_bytes_per_s: rate("--receive-mb-s", self.receive_mb_s)?,
        })
    }
}

fn duration(flag: &str, ms: f64) -> Result<Duration> {
    limits::check(flag, ms, limits::DELAY_MS)?;
    Ok(Duration::from_secs_f64(ms / 1e3))
}

fn rate(flag: &str, mb_s: Option<f64>) -> Result<Option<u64>> {
    let Some(rate) = mb_s else { return Ok(None) };
    limits::check(flag, rate, limits::MB_S)?;
    Ok(Some((rate * 1e6) as u64))
}

fn per_million(share: f64) -> Result<u32> {
    limits::check("--loss", share, limits::SHARE)?;
    Ok((share * 1e6).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_a_link_or_name_their_flag() {
        let args =
            LinkArgs { rtt_ms: 0.3, up_mb_s: Some(125.0), loss: 0.0004, ..Default::default() };
        let link = args.link().unwrap();
        assert_eq!(link.round_trip, Duration::from_micros(300));
        assert_eq!((link.up_bytes_per_s, link.down_bytes_per_s), (Some(125_000_000), None));
        assert_eq!(link.losses_per_million, 400, "a small share is not rounded away");
        assert_eq!(link.resend, Link::RESEND);
        let late = LinkArgs { loss_ms: Some(1_000.0), ..args };
        assert_eq!(late.link().unwrap().resend, Duration::from_secs(1));
        assert!(late.words().ends_with("loss 0.0004 of 1000 ms"), "{}", late.words());
        assert!(LinkArgs::default().is_instant() && !args.is_instant());
        for (wrong, flag) in [
            (LinkArgs { rtt_ms: -1.0, ..args }, "--rtt-ms"),
            (LinkArgs { jitter_ms: f64::NAN, ..args }, "--jitter-ms"),
            (LinkArgs { down_mb_s: Some(0.0), ..args }, "--down-mb-s"),
            (LinkArgs { loss: 2.0, ..args }, "--loss"),
            (LinkArgs { loss_ms: Some(-1.0), ..args }, "--loss-ms"),
        ] {
            let told = wrong.link().unwrap_err().to_string();
            assert!(told.contains(flag), "{told}");
        }
    }
}

//! What was seen, what is proposed and what that reveals, for people and for programs.

use fogbank::link::LinkArgs;
use fogbank::plan::size;
use fogbank_process::say;
use serde_json::json;

use super::need::Arrivals;
use super::proposal::Proposal;
use super::seen::Seen;

/// What the choice reveals, after the figures.
const REVEALS: &str = "\
what it reveals  These figures are public: the cloud sees them in the shape of every epoch. Whoever
                 knows that they were chosen by an application learns of it as it was observed:
                 exactly how deep its reads depend on one another (that of 99 of 100 transactions:
                 --read-batches less one), how long values are, to a power of two, and, to the next
                 of 1, 2, 5, 10, 20, 50 and so on, about how many records it reads and writes in so
                 much time, and how many there are. Of what happens later they tell nothing, as long
                 as they stay as they are. So choose them once, for the busiest time; do not tune
                 again because load has changed, for each change would tell of it. A larger figure
                 of your own reveals less and costs more.";

/// What is told.
pub struct Report<'a> {
    /// What was seen.
    pub seen: &'a Seen,
    /// How transactions come.
    pub arrivals: Arrivals,
    /// Records that there were.
    pub records: u64,
    /// The link to the store.
    pub link: &'a LinkArgs,
    /// What is proposed.
    pub proposal: &'a Proposal,
}

impl Report<'_> {
    /// Prints it for people.
    pub fn print(&self) {
        let Self { seen, proposal, .. } = self;
        let line = |what: &str, figure: String| say!("{what:<16} {figure}");
        let (mean, busiest) = seen.per_s();
        line(
            "seen (secret)",
            format!(
                "{} transactions that read or write, {} that do not; {} records",
                seen.transactions, seen.silent, self.records
            ),
        );
        line(
            "  came",
            match self.arrivals {
                Arrivals::Clients(clients) => {
                    format!("from {clients} clients that wait for their answers")
                }
                Arrivals::PerS(_) => {
                    format!("{mean:.0} ended a second on average, {busiest:.0} in the busiest")
                }
            },
        );
        let rounds = [50.0, 99.0, 100.0].map(|percent| seen.rounds_percentile(percent));
        line(
            "  rounds",
            format!(
                "{} half of them, {} for 99 of 100, {} at most; {} records in one at most",
                rounds[0],
                rounds[1],
                rounds[2],
                seen.widest()
            ),
        );
        for (what, of) in [("  read", seen.read), ("  written", seen.written)] {
            let mean = seen.mean(of);
            line(what, format!("{mean:.1} records on average, {} at most", of.max));
        }
        let [most, max] = [99.0, 100.0].map(|percent| seen.value_percentile(percent));
        line("  values", format!("up to {most} B for 99 of 100, {max} B at most"));
        say!("");
        let (latency_ms, latency_max_ms) = proposal.latency_ms();
        line("proposal", proposal.flags().join(" "));
        let store = if self.link.is_instant() { "" } else { " --store URL" };
        line("  paste", format!("fogbank serve --data DIR{store} {}", proposal.flags().join(" ")));
        line("  link", self.link.words());
        if proposal.config.xor {
            line(
                "  --xor",
                "a path comes as one cell, as from a fogbank-cloud; from others more does".into(),
            );
        }
        line(
            "  an epoch",
            format!(
                "{:.0} ms, for {:.0} transactions on average",
                proposal.epoch.total_s * 1e3,
                proposal.transactions
            ),
        );
        line(
            "  answer after",
            format!("{latency_ms:.0} ms, at most {latency_max_ms:.0} ms at the first attempt"),
        );
        line("  traffic", format!("{}/s both ways, busy or idle", size(proposal.bytes_per_s())));
        line(
            "  do not fit",
            match self.deeper() {
                0.0 => "none that was seen".into(),
                share => format!(
                    "{:.2} % of transactions need more than {} rounds: they abort and \
                     begin again, mostly in vain; give --read-batches {} for them, too",
                    share * 100.0,
                    proposal.config.read_batches,
                    rounds[2]
                ),
            },
        );
        say!("\n{REVEALS}");
    }

    /// The share of transactions that are too deep.
    fn deeper(&self) -> f64 {
        self.seen.share_deeper_than(self.proposal.config.read_batches)
    }

    /// The same for programs.
    pub fn json(&self) -> serde_json::Value {
        let Self { seen, proposal, .. } = self;
        let config = &proposal.config;
        let (mean, busiest) = seen.per_s();
        let (latency_ms, latency_max_ms) = proposal.latency_ms();
        let clients = match self.arrivals {
            Arrivals::Clients(clients) => Some(clients),
            Arrivals::PerS(_) => None,
        };
        json!({
            "seen": {
                "transactions": seen.transactions,
                "without_records": seen.silent,
                "records": self.records,
                "clients": clients,
                "per_s_mean": mean,
                "per_s_busiest": busiest,
                "rounds_p50": seen.rounds_percentile(50.0),
                "rounds_p99": seen.rounds_percentile(99.0),
                "rounds_max": seen.rounds_percentile(100.0),
                "widest_round": seen.widest(),
                "read_mean": seen.mean(seen.read),
                "read_max": seen.read.max,
                "written_mean": seen.mean(seen.written),
                "written_max": seen.written.max,
                "value_bytes_p99": seen.value_percentile(99.0),
                "value_bytes_max": seen.value_percentile(100.0),
            },
            "proposal": {
                "capacity": config.capacity,
                "value_size": config.value_size,
                "read_batches": config.read_batches,
                "batch": config.batch,
                "write_batch": config.write_batch,
                "interval_ms": config.interval_ms,
                "bucket_reals": config.bucket_reals,
                "bucket_dummies": config.bucket_dummies,
                "evict_every": config.evict_every,
                "xor": config.xor,
            },
            "flags": proposal.flags().join(" "),
            "epoch_ms": proposal.epoch.total_s * 1e3,
            "transactions_per_epoch": proposal.transactions,
            "latency_ms_mean": latency_ms,
            "latency_ms_max": latency_max_ms,
            "bytes_per_s": proposal.bytes_per_s(),
            "share_too_deep": self.deeper(),
        })
    }
}

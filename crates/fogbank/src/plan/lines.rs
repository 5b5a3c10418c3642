//! What a store or a volume costs a month, in lines of a banner and of a plan.

use super::bill::{Bill, usd};
use super::distance::link_to;
use super::price::{Prices, prices};
use super::size;
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::link::LinkArgs;
use crate::object_default::{another_pace, seconds};
use crate::place::across_a_link;

/// A line: what it is about, and what there is to say.
pub type Line = (&'static str, String);

/// For the banner of a store at `url`, at list prices; why it is not known, if it is not. No store
/// stays closed for want of its bill.
pub fn of_store(config: &StoreConfig, url: &str, rests: bool) -> Vec<Line> {
    reckon_store(config, url, rests).unwrap_or_else(not_known)
}

/// Why a bill is not known.
pub fn not_known(why: Error) -> Vec<Line> {
    vec![("bill", format!("not known: {why}"))]
}

fn reckon_store(config: &StoreConfig, url: &str, rests: bool) -> Result<Vec<Line>> {
    let prices = prices(None, url)?;
    let (bill, plan) = Bill::of_store(config, url, &link_to(url, &LinkArgs::default()).0, &prices)?;
    let mut lines = of_bill(&bill, url, rests);
    if is_charged(url) && config.interval_ms > 0 {
        lines.push(("answers", format!("within {}", seconds(plan.latency_s().1))));
    }
    lines.extend(beside(config, url, &prices)?);
    Ok(lines)
}

/// The bill, and what a store at rest costs; of a disk of one's own, how it wears.
pub fn of_bill(bill: &Bill, url: &str, rests: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    let when = when(rests);
    if is_charged(url) {
        // A server is rented as a whole: nobody counts its requests.
        let by = if across_a_link(url) {
            "a disk at list price; add the rent of your server and its traffic"
        } else {
            "list prices"
        };
        lines.push(("bill", format!("{} ({by})", bill.words(when))));
        if let Some(running) = bill.running.filter(|running| running.usd() > 0.0) {
            let how = if rests { "" } else { ": serve --rest-after 10m" };
            let (storage, saved) = (usd(bill.storage_usd), usd(running.usd()));
            let when = "while no client is connected";
            lines.push(("at rest", format!("{storage} a month, {saved} less, {when}{how}")));
        }
    }
    if let Some(bytes) = bill.written_a_day.filter(|_| url.starts_with("file:")) {
        lines.push(("wear", format!("{} a day written to the disk, {when}", size(bytes))));
    }
    lines
}

/// When a store sends.
pub fn when(rests: bool) -> &'static str {
    if rests { "if clients never leave" } else { "busy or idle" }
}

/// Another pace, and what it costs.
///
/// # Errors
/// By blame, see [`crate::Error`].
pub fn beside(config: &StoreConfig, url: &str, prices: &Prices) -> Result<Option<Line>> {
    let pace = another_pace(config, url, prices)?;
    Ok(pace.map(|pace| ("or", pace.words())))
}

/// Whether somebody sends a bill for what is at `url`.
fn is_charged(url: &str) -> bool {
    !url.starts_with("file:") && !url.starts_with("memory:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ShapeArgs;

    #[test]
    fn a_bill_that_cannot_be_reckoned_says_why() {
        let config = StoreConfig::derive(&ShapeArgs::default(), false).unwrap();
        let words = |url: &str| {
            let lines = of_store(&config, url, false);
            lines.into_iter().map(|(what, said)| format!("{what}: {said}\n")).collect::<String>()
        };
        let told = words("ftp://x");
        assert!(told.starts_with("bill: not known: ") && told.contains("[ftp]"), "{told}");
        let told = words("s3://b");
        assert!(told.contains("a month, busy or idle") && !told.contains("not known"), "{told}");
        assert!(told.contains("(list prices)"), "{told}");
        assert!(words("grpc://h:7/t").contains("add the rent of your server"));
    }
}

//! `fogbank bench paper`: the figures of the papers that the engines are from, with our values
//! beside theirs.
//!
//! 1. What is asked (`ask`) is checked, and the folder made, before anything is measured.
//! 2. Figures are measured one after the other; what one figure compares is measured in turns, so
//!    that what disturbs one of both disturbs the other (applications are not: epochs run on when
//!    nobody asks).
//! 3. Each (`figure`) is held against what a figure has to be, printed and written as soon as it is
//!    there (`report`).
//!
//! Cells are verified and values compared with what was written in all of them, so nothing stands
//! for the paper's `dummy`, which stores nothing; memory is the nearest.

mod applications;
mod ask;
mod batches;
mod durability;
mod epochs;
mod figure;
mod lane;
mod multicloud;
mod oblivistore;
mod parallel;
mod privatefs;
mod published;
mod report;
mod tao;

use crate::args::{BenchPaperArgs, PaperFigure};
use clap::ValueEnum;
use fogbank::{Error, Result};

use self::ask::Ask;
use self::figure::Figure;
use self::oblivistore::Media;
use self::report::Report;

/// Runs the benchmark, prints its figures and writes them.
///
/// # Errors
/// [`fogbank::Error::CheckFailed`] if a value read is not the one written.
pub async fn run(args: BenchPaperArgs) -> Result<()> {
    let ask = Ask::of(&args)?;
    let mut report = Report::prepare(&args)?;
    let measured = measure_all(asked(&args.figure), &ask, &mut report).await;
    // What was measured before something went wrong is kept.
    report.finish(&args)?;
    measured
}

/// Measures figures one after the other. One that had too little time is told in the end: others
/// may have taken an hour.
async fn measure_all(mut open: Vec<PaperFigure>, ask: &Ask, report: &mut Report) -> Result<()> {
    let mut left_out = Vec::new();
    while let Some(first) = open.first().copied() {
        let measured = match measure(first, ask).await {
            Err(Error::TooFewData(why)) => {
                left_out.push(why);
                Vec::new()
            }
            measured => measured?,
        };
        for figure in measured {
            // What came with another figure counts only if it was asked for.
            if !open.contains(&figure.id) {
                continue;
            }
            open.retain(|id| *id != figure.id);
            match report.add(figure) {
                Err(Error::TooFewData(why)) => left_out.push(why),
                added => added?,
            }
        }
        open.retain(|id| *id != first);
    }
    match left_out.is_empty() {
        true => Ok(()),
        false => Err(Error::TooFewData(left_out.join("; "))),
    }
}

/// The figures in the order of the papers, each once.
fn asked(typed: &[PaperFigure]) -> Vec<PaperFigure> {
    let all = PaperFigure::value_variants().iter().copied();
    let mut asked: Vec<PaperFigure> = match typed.contains(&PaperFigure::All) {
        true => all.filter(|id| *id != PaperFigure::All).collect(),
        false => typed.to_vec(),
    };
    asked.sort_unstable();
    asked.dedup();
    asked
}

/// Measures a figure, and others that come with it.
async fn measure(id: PaperFigure, ask: &Ask) -> Result<Vec<Figure>> {
    Ok(match id {
        PaperFigure::All => Vec::new(),
        PaperFigure::Applications => vec![applications::with_and_without(ask).await?],
        PaperFigure::Parallel => vec![parallel::figure(ask).await?],
        PaperFigure::BatchThroughput | PaperFigure::BatchLatency => {
            batches::figures(ask).await?.into()
        }
        PaperFigure::Buffering => vec![epochs::buffering(ask).await?],
        PaperFigure::EpochSize => vec![epochs::lengths(ask).await?],
        PaperFigure::EpochLength => vec![applications::by_epoch_length(ask).await?],
        PaperFigure::Checkpoints => vec![durability::checkpoints(ask).await?],
        PaperFigure::Recovery => vec![durability::recovery(ask).await?],
        PaperFigure::TaoClients => vec![tao::clients(ask).await?],
        PaperFigure::TaoCachePath
        | PaperFigure::TaoCacheResponse
        | PaperFigure::TaoCacheThroughput => tao::caches(ask).await?.into(),
        PaperFigure::TaoWriteBack => vec![tao::write_back(ask).await?],
        PaperFigure::DisksThroughput
        | PaperFigure::DisksResponse
        | PaperFigure::DrivesThroughput
        | PaperFigure::DrivesResponse
        | PaperFigure::Seeks => oblivistore::sizes(ask).await?.into(),
        PaperFigure::DisksRoundTrip => vec![oblivistore::round_trips(ask, Media::Disks).await?],
        PaperFigure::DrivesRoundTrip => vec![oblivistore::round_trips(ask, Media::Drives).await?],
        PaperFigure::CloudsThroughput | PaperFigure::CloudsResponse | PaperFigure::CloudsParts => {
            multicloud::sizes(ask).await?.into()
        }
        PaperFigure::CloudsRoundTripThroughput | PaperFigure::CloudsRoundTripResponse => {
            multicloud::round_trips(ask).await?.into()
        }
        PaperFigure::CloudsChecksum => vec![multicloud::checksums(ask)?],
        PaperFigure::CloudsBetweenThroughput | PaperFigure::CloudsBetweenResponse => {
            multicloud::between(ask).await?.into()
        }
        PaperFigure::SiteSizes => vec![privatefs::sizes(ask).await?],
        PaperFigure::SiteRoundTrips => vec![privatefs::round_trips(ask).await?],
        PaperFigure::SiteGrowing => vec![privatefs::growing(ask).await?],
        PaperFigure::SiteProgress => vec![privatefs::progress(ask).await?],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_measured_once_and_in_the_order_of_the_papers() {
        use PaperFigure as F;
        assert_eq!(
            asked(&[F::Recovery, F::Applications, F::Recovery]),
            [F::Applications, F::Recovery]
        );
        let all = asked(&[F::TaoClients, F::All]);
        assert_eq!((all.len(), all[0]), (33, F::Applications));
        assert_eq!(
            (all[20], all[28], all[32]),
            (F::Seeks, F::CloudsBetweenResponse, F::SiteProgress)
        );
        // What is typed is what is printed.
        for id in all {
            assert_eq!(PaperFigure::from_str(id.name(), false), Ok(id));
        }
    }
}

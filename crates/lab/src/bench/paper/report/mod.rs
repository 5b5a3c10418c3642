//! The figures of a run, printed, drawn and written as they come.
//!
//! | file | what it is |
//! |---|---|
//! | `figure-ID.svg`, `figure-ID-PANEL.svg` | a drawing |
//! | `figures.txt` | the tables, as they were printed |
//! | `figures.json` | everything, for programs |
//! | `index.html` | one page with all of it, if it was asked for |

mod drawing;
mod page;
mod table;

use std::path::{Path, PathBuf};

use crate::args::{BenchPaperArgs, PaperFigure};
use fogbank::{Error, Result};
use fogbank_process::{say, say_error};
use serde::Serialize;

use super::figure::Figure;
use crate::bench::machine::Machine;

/// What a run came to so far.
#[derive(Serialize)]
pub struct Report {
    command: String,
    machine: Machine,
    figures: Vec<Figure>,
    #[serde(skip)]
    drawn: Vec<Vec<String>>,
    #[serde(skip)]
    folder: PathBuf,
    #[serde(skip)]
    html: bool,
}

impl Report {
    /// Makes the folder, before anything is measured in vain.
    ///
    /// # Errors
    /// [`Error::CannotUse`] for a folder that cannot be made.
    pub fn prepare(args: &BenchPaperArgs) -> Result<Self> {
        std::fs::create_dir_all(&args.out).map_err(|e| cannot(&args.out, &e))?;
        Ok(Self {
            command: command(args),
            machine: Machine::read(),
            figures: Vec::new(),
            drawn: Vec::new(),
            folder: args.out.clone(),
            html: args.html,
        })
    }

    /// Checks, prints and draws a figure.
    ///
    /// # Errors
    /// As [`Figure::check`]; [`Error::CannotUse`] for a file that cannot be written.
    pub fn add(&mut self, figure: Figure) -> Result<()> {
        figure.check()?;
        say!("{}", table::of(&figure));
        let mut drawn = Vec::new();
        for panel in &figure.panels {
            let svg = drawing::svg(&figure, panel)?;
            self.write(&format!("{}.svg", figure.file_stem(panel)), &svg)?;
            drawn.push(svg);
        }
        self.drawn.push(drawn);
        self.figures.push(figure);
        // All of it each time: a run takes long, and may be stopped.
        self.write_all()
    }

    /// Writes the whole of it, even if it is nothing, and says where.
    ///
    /// # Errors
    /// [`Error::CannotUse`] for a file that cannot be written.
    pub fn finish(self, args: &BenchPaperArgs) -> Result<()> {
        self.write_all()?;
        say_error!("written: {}", self.folder.display());
        if args.json {
            say!("{}", self.json(serde_json::to_string)?);
        }
        Ok(())
    }

    fn write_all(&self) -> Result<()> {
        let tables: Vec<String> = self.figures.iter().map(table::of).collect();
        let head = format!("{}\n{}\n", self.command, self.machine.words());
        self.write("figures.txt", &format!("{head}\n{}\n", tables.join("\n")))?;
        self.write("figures.json", &self.json(serde_json::to_string_pretty)?)?;
        if self.html {
            self.write("index.html", &page::html(self))?;
        }
        Ok(())
    }

    fn json(&self, text: fn(&Self) -> serde_json::Result<String>) -> Result<String> {
        text(self).map_err(|e| Error::Bug(format!("figures are no JSON: {e}")))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let file = self.folder.join(name);
        std::fs::write(&file, text).map_err(|e| cannot(&file, &e))
    }
}

/// What repeats a run.
fn command(args: &BenchPaperArgs) -> String {
    let figures: Vec<&str> = args.figure.iter().map(|figure| figure.name()).collect();
    let mut command = format!("fogbank bench paper --figure {}", figures.join(","));
    let typed = [("scale", args.scale), ("seconds", args.seconds), ("ramp", args.ramp)];
    for (flag, value) in typed.iter().filter_map(|(flag, value)| Some((flag, (*value)?))) {
        command += &format!(" --{flag} {value}");
    }
    command += &format!(" --rounds {} --seed {}", args.rounds, args.seed);
    for word in args.shape.flags() {
        command += &format!(" {word}");
    }
    command
}

/// Which figure of which paper it is.
fn of_paper(id: PaperFigure) -> &'static str {
    match id {
        PaperFigure::All => "",
        PaperFigure::Applications => "Obladi, figure 9",
        PaperFigure::Parallel => "Obladi, figure 10a",
        PaperFigure::BatchThroughput => "Obladi, figure 10b",
        PaperFigure::BatchLatency => "Obladi, figure 10c",
        PaperFigure::Buffering => "Obladi, figure 10d",
        PaperFigure::EpochSize => "Obladi, figure 10e",
        PaperFigure::EpochLength => "Obladi, figure 10f",
        PaperFigure::Checkpoints => "Obladi, figure 11a",
        PaperFigure::Recovery => "Obladi, figure 11b",
        PaperFigure::TaoClients => "TaoStore, figure 8 (a)",
        PaperFigure::TaoCachePath => "TaoStore, figure 8 (b)",
        PaperFigure::TaoCacheResponse => "TaoStore, figure 8 (c)",
        PaperFigure::TaoCacheThroughput => "TaoStore, figure 8 (d)",
        PaperFigure::TaoWriteBack => "TaoStore, the write-back threshold",
        PaperFigure::DisksThroughput => "ObliviStore, figure 8",
        PaperFigure::DisksResponse => "ObliviStore, figure 9",
        PaperFigure::DisksRoundTrip => "ObliviStore, figure 10",
        PaperFigure::DrivesThroughput => "ObliviStore, figure 11",
        PaperFigure::DrivesResponse => "ObliviStore, figure 12",
        PaperFigure::DrivesRoundTrip => "ObliviStore, figure 13",
        PaperFigure::Seeks => "ObliviStore, figure 16",
        PaperFigure::CloudsThroughput => "Multi-cloud, figure 7",
        PaperFigure::CloudsResponse => "Multi-cloud, figure 8",
        PaperFigure::CloudsRoundTripThroughput => "Multi-cloud, figure 9",
        PaperFigure::CloudsRoundTripResponse => "Multi-cloud, figure 10",
        PaperFigure::CloudsParts => "Multi-cloud, figure 12",
        PaperFigure::CloudsChecksum => "Multi-cloud, figure 13",
        PaperFigure::CloudsBetweenThroughput => "Multi-cloud, figure 14",
        PaperFigure::CloudsBetweenResponse => "Multi-cloud, figure 15",
        PaperFigure::SiteSizes => "PD-ORAM, figure 6",
        PaperFigure::SiteRoundTrips => "PD-ORAM, figure 7",
        PaperFigure::SiteGrowing => "PD-ORAM, figure 8",
        PaperFigure::SiteProgress => "PD-ORAM, figure 9",
    }
}

fn cannot(path: &Path, reason: &std::io::Error) -> Error {
    Error::CannotUse(format!("{}: {reason}", path.display()))
}

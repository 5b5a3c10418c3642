//! What is drawn of a run: what was asked beside what the cloud saw, each as bands of heat over
//! time. The auditor draws both into its page, the proxy into its live one.

#![forbid(unsafe_code)]

mod bands;
mod colours;
mod heat;
mod history;

pub use bands::{Band, FULL_HEAT, Picture, SHADES, shade};
pub use colours::{Colour, Side};
pub use heat::{COLUMNS, HeatMap};
pub use history::{
    Asked, HistoryError, HistoryLine, HistoryReader, HistoryWriter, Keys, key_number,
};

/// The style of both pages.
pub const STYLE: &str = include_str!("page.css");

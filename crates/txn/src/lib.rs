//! Transactions over a batched engine: epochs, MVTSO, batcher, key directory.

mod error;
mod key;
mod naive;
mod record;
mod settings;

pub use error::{Error, Pause, Result};
pub use key::{Key, KeyRange};
pub use naive::{Closed, Program, Proxy, Session, View, Watch};
pub use record::{Record, Stat};
pub use settings::{Components, Limits, Settings};

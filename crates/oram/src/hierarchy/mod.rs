//! `hierarchy`: many clients that share one key, and no proxy.
//!
//! Clients meet in a query log that the cloud keeps. Everything but the order of the log is a
//! function of the log: values, tables, orders. So every race between clients is one between equal
//! plaintexts, and all that they must agree on is one digest.
//!
//! # The protocol, one query (`client`)
//!
//! 1. *Append* an entry: kind, address, bytes to be written, and the log that its sealer knew. Its
//!    index in the log is its *place*, place div T its *epoch*.
//! 2. *Touch* one slot of every table of the epoch, once the epoch's superblock is there and the
//!    client's register has been saved: the slot of the address in the newest table that holds it,
//!    if the address stands in the log neither in this epoch nor in the one before (the *window*);
//!    else the fake that the place owns (`fakes`).
//! 3. *Publish* what was found, if nobody has.
//! 4. *Answer* when the results of all places before are there: the window is replayed (`replay`).
//! 5. If a result is missing for the public time, anybody does steps 2 and 3 for its place.
//!
//! # The protocol, tables (`schedule`, `table`, `pieces`)
//!
//! 6. Epoch e becomes table (0, e); G tables of a level become one of the next. The bottom holds
//!    all addresses. When a table is touched first and last is arithmetic on the epoch.
//! 7. A build starts when its sources are there and reads them whole, in pieces (`builds`,
//!    `building`), whose places in the log say who does them and when. Anybody may do one:
//!    addresses and order follow from the log, and so does the content.
//! 8. Superblock k says that what epoch k needs is there; its touches wait for it.
//!
//! The rules (`schedule`, `table`, `fakes`, `replay`, `follower`) and the client do no I/O;
//! `engine`, `serving`, `listening`, `join` and `upkeep` carry out what the client says; `scan`
//! reads all that there is.
//!
//! 9. A client that has come to move the site says so in its first entry. All others end when they
//!    hear it: what they have answered stands before it in the log (decision 0109).
//! 10. A site that is made of what another held starts from an *image*: a bottom that is there from
//!     the first query on (`image`).
//!
//! # Invariants
//!
//! - No slot is touched by two places; a place touched again touches the same slots.
//! - An entry whose sealer knew too little is *void*: it keeps place and turn, and has no effect.
//! - Touches wait for no result.
//! - After a check that failed nothing leaves any more.
//!
//! # What the cloud sees
//!
//! Sessions, their appends in order, takeovers, builds, and of every query one uniform slot, not
//! touched before, of every table of its epoch.
//!
//! # Departures from the protocol
//!
//! Streams of orders and fakes are ChaCha, as all of this program are (decision 0055). Joining,
//! what is kept for how long: decision 0060. Who builds what, and at which pace: decisions 0065,
//! 0067 and 0073.
//!
//! Paper: Williams, Sion and Tomescu, PrivateFS: A Parallel Oblivious File System, CCS 2012.

mod building;
mod builds;
#[cfg(not(feature = "canaries"))]
mod canary;
#[cfg(feature = "canaries")]
pub mod canary;
mod cells;
mod client;
mod cost;
mod dealing;
mod engine;
mod entry;
mod fakes;
mod follower;
mod image;
mod join;
mod lane;
mod listening;
mod numbers;
mod pieces;
mod public;
mod replay;
mod scan;
mod schedule;
mod sealed;
mod serving;
mod sessions;
mod sweep;
mod table;
mod upkeep;
mod whose;

#[cfg(test)]
mod tests;

pub use canary::Canary;
pub use cells::level_of;
pub use client::{Client, Effect};
pub use cost::{Cost, stored_bytes};
pub use engine::{HierarchyEngine, schedule_of};
pub use entry::{Entry, Found, Says};
pub use follower::{Follower, Plan};
pub use image::{Take, finish_with};
pub use public::{arrays_of, public_config};
pub use schedule::{Schedule, Table};
pub use table::{Body, Index};

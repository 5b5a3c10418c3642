//! Object stores as back ends of [`fogbank_store::Store`]: S3 and what speaks like it, Azure Blob
//! Storage, Google Cloud Storage; and, with the feature `dynamodb`, tables of items (`dynamo`).
//!
//! How a call becomes requests:
//!
//! 1. A call is checked against the shape of its arrays before anything is sent (`arrays`).
//! 2. A chunk version is one object, put only if there is none of its name; a cell is a ranged GET,
//!    and cells of one chunk version that lie close together share one (`reads`, by a public rule).
//!    A blob is one object, put conditionally if asked (`blobs`). What is where: `names`.
//! 3. Requests leave in the order of the call, at most so many at once (`requests`), each alone:
//!    one that fails is sent again, byte for byte the same, after waits that are fixed (`retry`).
//! 4. What comes back is held against what was asked, and read no further than that.
//!
//! Invariants: a chunk object is never overwritten; every put is durable when it returns, so a
//! barrier has nothing to do; a conditional put whose outcome is unknown is an error, never a
//! guess; no message holds a credential.
//!
//! What the cloud sees: the names of objects, which are array, chunk and version, and the ranges,
//! which are cells. All of it is a function of the call, that is of what the recorder above this
//! crate writes down, of this crate's settings, and of the cloud's own answers. So it shows nothing
//! that the recorded trace does not show.

mod arrays;
mod asked;
mod blobs;
mod chunks;
mod credentials;
#[cfg(feature = "dynamodb")]
mod dynamo;
mod environment;
mod error;
mod found;
mod meaning;
mod names;
mod objects;
mod profile;
mod reads;
mod requests;
mod retry;
mod store;
mod table_url;
mod transport;
mod trial;
mod url;

#[cfg(feature = "dynamodb")]
pub use dynamo::DynamoStore;
pub use environment::Environment;
pub use error::is_gone;
pub use found::Found;
pub use requests::RequestCount;
pub use store::{ObjectsOptions, ObjectsStore};
pub use table_url::TableUrl;
pub use url::{ObjectsUrl, Provider};

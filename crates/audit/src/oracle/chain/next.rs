//! The calls of a vault, one of which is due.

/// The call that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::oracle) enum Next {
    /// This process has done nothing yet.
    Opening,
    /// Nothing: it found no store, or has closed it.
    Nothing,
    JournalGet(u32),
    Takeover,
    Claim,
    FullGet(u32),
    /// Of the so-manieth delta from the newest.
    DeltaGet(usize, u32),
    /// A list of the journal records of the epoch of which the last commit superseded some.
    RecordList,
    /// The look at the so-manieth of those.
    RecordGet(u64),
    FullList,
    DeltaList,
    Leftovers,
    Array,
    /// The engine's calls, and the journal record of the next batch.
    Batches,
    /// The piece of this number, or the end of those under way.
    CommitPiece(u32),
    CommitPut,
    /// The deletions of what a commit superseded, chunks and blobs, which leave at once.
    Collect,
    SweepList,
    SweepDelete,
    ClosePiece(u32),
    ClosePut,
    CloseDelete,
}

impl Next {
    /// The rule that another call than this one breaks.
    pub fn rule(self) -> &'static str {
        match self {
            Self::CommitPiece(_) | Self::CommitPut | Self::Collect => "commit-order",
            _ => "blob-order",
        }
    }

    pub fn words(self) -> String {
        match self {
            Self::Opening => "get commit".into(),
            Self::Nothing => "nothing more from this process".into(),
            Self::JournalGet(place) => format!("get of the journal record at place {place}"),
            Self::Takeover => "put of a takeover record".into(),
            Self::FullGet(piece) => format!("get of piece {piece} of the full checkpoint"),
            Self::DeltaGet(nth, piece) => format!("get of piece {piece} of delta {nth}"),
            Self::RecordList => "list of the journal records of the last commit's epoch".into(),
            Self::RecordGet(nth) => format!("get of listed journal record {nth}"),
            Self::FullList => "list checkpoint/".into(),
            Self::DeltaList => "list delta/".into(),
            Self::Leftovers => "the deletion of what was listed and is left over".into(),
            Self::Array => "create array".into(),
            Self::Batches => "the next message of an epoch".into(),
            Self::CommitPiece(piece) => format!("put of piece {piece} of what the epoch changed"),
            Self::ClosePiece(piece) => format!("put of piece {piece}"),
            Self::Claim | Self::CommitPut | Self::ClosePut => "put commit".into(),
            Self::SweepDelete => "the deletion of old bucket versions".into(),
            Self::SweepList => "list chunks".into(),
            Self::Collect | Self::CloseDelete => {
                "the deletion of what the commit superseded".into()
            }
        }
    }
}

//! The rules of a site's specification, by name: every one has a trace that breaks it.

use crate::oracle::fault::{self, Step};

/// Makes `Rule` and the list of all names.
macro_rules! rules {
    ($($rule:ident: $name:literal,)*) => {
        /// A rule that an event can break.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Rule { $($rule,)* }

        /// The names of all.
        pub const RULES: &[&str] = &[$($name,)*];
    };
}

rules! {
    // The log.
    EntryBytes: "entry-bytes",
    ResultBytes: "result-bytes",
    OwnSession: "own-session",
    TurnOnce: "turn-once",
    OneLog: "one-log",
    PlacesWithoutGap: "places-without-gap",
    FollowFrom: "follow-from",
    FollowAsked: "follow-asked",
    ForgetDue: "forget-due",
    PublishHeard: "publish-heard",
    PublishTouched: "publish-touched",
    // Touches.
    TouchDue: "touch-due",
    TablesOfTheEpoch: "tables-of-the-epoch",
    TouchOfTable: "touch-of-table",
    SlotOfTable: "slot-of-table",
    OneVersion: "one-version",
    SlotOnce: "slot-once",
    TouchOnce: "touch-once",
    TouchOfEach: "touch-of-each",
    // Pieces of builds.
    ClaimOfPiece: "claim-of-piece",
    TicksOnce: "ticks-once",
    PieceOnce: "piece-once",
    Whose: "whose",
    Pace: "pace",
    PieceNeeds: "piece-needs",
    ReadOfPiece: "read-of-piece",
    PieceReads: "piece-reads",
    PieceWrites: "piece-writes",
    ChunksInOrder: "chunks-in-order",
    ChunkBytes: "chunk-bytes",
    BarrierDue: "barrier-due",
    PieceWhole: "piece-whole",
    ArrayOfLevel: "array-of-level",
    ArrayShape: "array-shape",
    Carry: "carry",
    // Objects.
    CallOfSite: "call-of-site",
    ObjectKnown: "object-known",
    ObjectBytes: "object-bytes",
    PutIfAbsent: "put-if-absent",
    AskedOnce: "asked-once",
    SessionOnce: "session-once",
    SuperblockDue: "superblock-due",
    MarksDue: "marks-due",
    SweepDue: "sweep-due",
    DeleteDue: "delete-due",
}

/// Stops the replay at `rule`.
pub fn fault<T>(rule: Rule, expected: impl Into<String>, seen: impl Into<String>) -> Step<T> {
    fault::fault(RULES[rule as usize], expected, seen)
}

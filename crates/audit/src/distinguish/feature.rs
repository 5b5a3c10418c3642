//! What is measured of one window, and how it is named.
//!
//! A feature is a number that whoever watches the store can work out. None needs a key, an engine
//! or a mark. Where a window holds nothing to measure, the feature has a fixed neutral value: that
//! it holds nothing is told by a count.

/// Names each feature once: a variant, its words for the report.
macro_rules! features {
    ($($name:ident: $words:literal,)*) => {
        /// A measured quantity of a window.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Feature { $($name,)* }

        /// Their words, in the order of the variants.
        const WORDS: &[&str] = &[$($words,)*];
    };
}

features! {
    // Times; lengths of time as logarithms of nanoseconds.
    ReadGap: "time from one read to the next",
    ReadAfterDone: "time from the last reply to the read",
    ReadLatency: "time the store took for the read",
    OtherLatency: "longest time the store took for another request",
    GapMax: "longest time between two requests of a window",
    GapMean: "mean time between the requests of a window",
    EpochPhase: "position within the epoch's interval",
    PointDelay: "time since the last point of the grid",
    // Sizes and counts.
    Requests: "requests",
    ChunksRead: "chunks read",
    CellsRead: "cells read",
    CellsMax: "most cells read of one chunk",
    ReplyBytes: "bytes replied",
    NotWritten: "cells asked for that were never written",
    Paths: "paths read",
    PathLength: "chunks of a path",
    Writes: "requests that write chunks",
    ChunksWritten: "chunks written",
    BytesWritten: "bytes of chunks written",
    BytesAChunk: "bytes of a written chunk",
    ChunksDeleted: "chunk versions deleted",
    BlobsPut: "blobs put",
    BlobBytes: "bytes of blobs put",
    BlobBytesMax: "bytes of the largest blob put",
    OtherRequests: "barriers, lists and reads of blobs",
    Failures: "requests that failed",
    Cloud: "cloud asked",
    Connection: "connection used",
    // Places.
    DistinctChunks: "share of the chunks read that are distinct",
    LevelMean: "mean level of the chunks read",
    LevelSpread: "spread of the levels of the chunks read",
    LevelMax: "deepest level read",
    PlaceMean: "mean place of the chunks read within their level",
    LeafMean: "mean place of the leaves read",
    LeafSpread: "spread of the leaves read",
    LeafMin: "lowest leaf read",
    LeafMax: "highest leaf read",
    RightHalf: "share of leaves in the right half",
    SecondBit: "share of leaves in odd quarters",
    ThirdBit: "share of leaves in odd eighths",
    LastBit: "share of leaves that are odd",
    SameHalfAsRetired: "share of leaves in the half that was last read to be rewritten",
    SameHalfAsWritten: "share of leaves in the half last written",
    WrittenLevelMean: "mean level of the chunks written",
    WrittenPlaceMean: "mean place of the chunks written",
    // Repeats.
    LeafRepeats: "share of leaves read among the last 64 before",
    LeafRepeatsNear: "share of leaves read among the last 8 before",
    LeafRepeatsInside: "share of leaves read twice in one window",
    LeafAge: "windows since a leaf was last read",
    LeafAgeMin: "shortest time since a leaf was last read",
    LeafHeat: "how often leaves were read before",
    LeafHeatMax: "how often the leaf read most was read before",
    LeafDistance: "how many leaves ago a repeated leaf was read",
    CommonPath: "levels that a path shares with the one before",
    ChunkAge: "windows since a chunk was last read",
    ChunkAgeDeep: "windows since a deep chunk was last read",
    ReadAgainNext: "share of chunks also read one window before",
    ReadAgainSoon: "share of chunks also read within eight windows",
    SameCell: "share of chunks of which the same cell is read again",
    CellAgain: "share of cells read twice in one version",
    Rising: "share of leaves above the one before",
    StepMean: "mean distance between neighbouring leaves",
    Successors: "share of chunks that follow the one before",
    // Cells.
    CellMean: "mean cell number",
    RankMean: "mean rank of a cell among the unread ones",
    RankSpread: "spread of ranks among the unread cells",
    RankFirst: "share of cells that are the first unread one",
    RankLast: "share of cells that are the last unread one",
    RetiredRankMean: "mean rank of the cells of chunks read to be rewritten",
    UnreadMean: "mean number of unread cells",
    // Order within the message.
    CellsFalling: "share of neighbouring cells in falling order",
    RankOrder: "ranks of the first paths against the last",
    AgeOrder: "age of the chunks of the first paths against the last",
    LeafOrder: "leaves of the first paths against the last",
    RepeatOrder: "repeated leaves at the beginning of a message against its end",
    RetiredAt: "where in a message chunks to be rewritten are read",
}

/// How many features a window has.
pub(super) const WIDTH: usize = WORDS.len();

/// The features of one window.
#[derive(Debug, Clone)]
pub(super) struct Row(pub(super) [f32; WIDTH]);

impl Row {
    pub(super) fn new() -> Self {
        Self([0.0; WIDTH])
    }

    pub(super) fn set(&mut self, feature: Feature, value: f64) {
        self.0[feature as usize] = if value.is_finite() { value as f32 } else { 0.0 };
    }
}

/// The words of column `column` of a matrix: the features of a window or their means over several,
/// then, over several, their spreads.
pub(super) fn words(column: usize) -> String {
    match WORDS.get(column) {
        Some(words) => (*words).to_owned(),
        None => format!("{}, its spread", WORDS[column % WIDTH]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_words_of_its_own() {
        let mut seen: Vec<String> = (0..2 * WIDTH).map(words).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 2 * WIDTH);
    }
}

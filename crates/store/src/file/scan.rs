//! Rebuilding what an array holds from its records.
//!
//! Flat memory beyond the index itself: records are read a piece at a time.

use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::xxh3_64;

use super::array::ArrayFile;
use super::disk::failed;
use super::frames::{Frame, RECORD_BYTES, RECORDS_START, Record, record_offset};
use super::index::{Index, Place};
use crate::Result;

/// What the records say.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) index: Index,
    pub(super) free: Vec<u32>,
    /// Frames whose records are live but do not count: their bytes never arrived, or the same
    /// version stands elsewhere. To be marked as free.
    pub(super) lost: Vec<u32>,
    /// Frames from here on were never used.
    pub(super) end: u32,
    /// There are chunk versions that no barrier has covered.
    pub(super) unproven: bool,
}

impl Scan {
    /// Reads all records of `array`, whose last barrier closed `epoch`.
    pub(super) fn read(array: &ArrayFile, epoch: u32) -> Result<Self> {
        let mut scan = Scan {
            index: Index::new(array.index().hashing),
            free: Vec::new(),
            lost: Vec::new(),
            end: 0,
            unproven: false,
        };
        let failed = |error| failed("read", &array.frames_path(), &error);
        let bytes = array.frames.metadata().map_err(failed)?.len().saturating_sub(RECORDS_START);
        let frames = u32::try_from(bytes / RECORD_BYTES as u64).unwrap_or(u32::MAX);
        let mut piece = vec![0; PIECE_RECORDS.min(frames) as usize * RECORD_BYTES];
        while scan.end < frames {
            let count = PIECE_RECORDS.min(frames - scan.end);
            let piece = &mut piece[..count as usize * RECORD_BYTES];
            array.frames.read_exact_at(piece, record_offset(scan.end)).map_err(failed)?;
            for bytes in piece.chunks_exact(RECORD_BYTES) {
                let frame = scan.end;
                scan.end += 1;
                scan.see(array, epoch, frame, Frame::decode(bytes, frame))?;
            }
        }
        Ok(scan)
    }

    fn see(&mut self, array: &ArrayFile, epoch: u32, number: u32, frame: Frame) -> Result<()> {
        match frame {
            Frame::Never | Frame::Free => self.free.push(number),
            Frame::Live(record) if record.chunk >= array.shape.chunks => {
                self.damaged(array, number)
            }
            Frame::Damaged => self.damaged(array, number),
            Frame::Live(record) if record.epoch > epoch && !arrived(array, number, record) => {
                self.lost.push(number);
            }
            Frame::Live(record) => {
                self.unproven |= record.epoch > epoch;
                self.add(array, number, record)?;
            }
        }
        Ok(())
    }

    /// Adds a live record. Two of one version are left by a crash after the version was deleted
    /// and written again: the later one stands.
    fn add(&mut self, array: &ArrayFile, frame: u32, record: Record) -> Result<()> {
        let Record { chunk, version, .. } = record;
        if let Some(other) = self.index.find(chunk, version) {
            let mut bytes = [0; RECORD_BYTES];
            let read = array.frames.read_exact_at(&mut bytes, record_offset(other));
            read.map_err(|error| failed("read", &array.frames_path(), &error))?;
            if matches!(Frame::decode(&bytes, other), Frame::Live(o) if o.epoch >= record.epoch) {
                self.lost.push(frame);
                return Ok(());
            }
            self.index.remove(chunk, version);
            self.lost.push(other);
        }
        self.index.insert(Place { version, chunk, frame });
        Ok(())
    }

    /// Leaves the frame alone: what was in it is missed when it is asked for.
    fn damaged(&self, array: &ArrayFile, frame: u32) {
        let path = array.frames_path();
        tracing::warn!(frame, path = %path.display(), "a damaged frame record");
    }
}

/// Whether the bytes in the frame are those that the record was written for.
fn arrived(array: &ArrayFile, frame: u32, record: Record) -> bool {
    let mut data = vec![0; array.shape.chunk_bytes()];
    // A frame that cannot be read has not arrived: the file may end before it.
    array.read_frame(frame, 0, &mut data).is_ok() && xxh3_64(&data) == record.fingerprint
}

const PIECE_RECORDS: u32 = 1 << 15;

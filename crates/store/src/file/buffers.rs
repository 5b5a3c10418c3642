//! Read buffers that come back when the last cell cut from them is dropped.
//!
//! A fresh allocation of this size costs more in page faults than reading into it does.

use std::sync::Arc;

use bytes::Bytes;
use fogbank_env::Mutex;

/// Buffers at rest; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    /// A buffer of at least `bytes`, with whatever is in it.
    pub(super) fn take(&self, bytes: usize) -> Buffer {
        let kept = self.0.lock().pop();
        let mut memory = kept.unwrap_or_default();
        if memory.len() < bytes {
            memory.resize(bytes, 0);
        }
        Buffer { memory, bytes, home: self.clone() }
    }
}

/// One buffer, on loan.
pub(super) struct Buffer {
    memory: Vec<u8>,
    bytes: usize,
    home: Buffers,
}

impl Buffer {
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.bytes]
    }

    /// The buffer as shared bytes; it goes home when the last of them is dropped.
    pub(super) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.bytes]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut kept = self.home.0.lock();
        if kept.len() < BUFFERS_KEPT_MAX && self.memory.len() <= BUFFER_KEPT_BYTES_MAX {
            kept.push(std::mem::take(&mut self.memory));
        }
    }
}

const BUFFERS_KEPT_MAX: usize = 64;
const BUFFER_KEPT_BYTES_MAX: usize = 1 << 20;

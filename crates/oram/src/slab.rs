//! Payloads behind handles.
//!
//! The metadata plane moves handles; a payload is a fixed-size buffer that is filled when its cell
//! has been opened. Buffers are boxes so that a batch can take out the ones it fills, fill them on
//! all cores, and put them back.

use crate::geometry::BLOCK_ID_BYTES;

/// Names a payload buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle(pub u32);

impl Handle {
    /// No payload: what is fetched is verified and dropped.
    pub const NONE: Self = Self(u32::MAX);
}

/// Gives out handles; a freed one is given out again. Knows no buffer, so that plans can be made
/// without any.
#[derive(Debug, Clone, Default)]
pub struct Handles {
    free: Vec<Handle>,
    next: u32,
}

impl Handles {
    /// A handle that nobody else has.
    pub fn claim(&mut self) -> Handle {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            Handle(self.next - 1)
        })
    }

    /// Gives `handle` back.
    pub fn release(&mut self, handle: Handle) {
        debug_assert!(handle != Handle::NONE);
        self.free.push(handle);
    }
}

/// The buffers, made when first taken and then kept.
#[derive(Debug)]
pub struct Slab {
    buffers: Vec<Box<[u8]>>,
    buffer_bytes: usize,
}

impl Slab {
    /// A slab of buffers of `buffer_bytes`.
    pub fn new(buffer_bytes: usize) -> Self {
        Self { buffers: Vec::new(), buffer_bytes }
    }

    /// Bytes of every buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// The payload; empty if it was never put.
    pub fn get(&self, handle: Handle) -> &[u8] {
        self.buffers.get(handle.0 as usize).map_or(&[], |buffer| buffer)
    }

    /// The payload, to be changed; empty if it was never put.
    pub fn get_mut(&mut self, handle: Handle) -> &mut [u8] {
        self.buffers.get_mut(handle.0 as usize).map_or(&mut [], |buffer| buffer)
    }

    /// Writes the plaintext of a cell, block id and value, under `handle`. The value is as long as
    /// a buffer less its id.
    pub fn fill(&mut self, handle: Handle, block: u32, value: &[u8]) {
        let mut buffer = self.take(handle);
        let (id, rest) = buffer.split_at_mut(BLOCK_ID_BYTES.min(self.buffer_bytes));
        id.copy_from_slice(&u64::from(block).to_le_bytes()[..id.len()]);
        rest.copy_from_slice(value);
        self.put(handle, buffer);
    }

    /// Takes the buffer out, whatever its content. An empty one for [`Handle::NONE`].
    pub fn take(&mut self, handle: Handle) -> Box<[u8]> {
        if handle == Handle::NONE {
            return Box::default();
        }
        match self.buffers.get_mut(handle.0 as usize) {
            Some(buffer) if !buffer.is_empty() => std::mem::take(buffer),
            _ => vec![0; self.buffer_bytes].into_boxed_slice(),
        }
    }

    /// Puts a buffer back under its handle; dropped if that is [`Handle::NONE`].
    pub fn put(&mut self, handle: Handle, buffer: Box<[u8]>) {
        if handle == Handle::NONE {
            return;
        }
        let index = handle.0 as usize;
        if index >= self.buffers.len() {
            self.buffers.resize_with(index + 1, Box::default);
        }
        self.buffers[index] = buffer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again() {
        let (mut handles, mut slab) = (Handles::default(), Slab::new(3));
        let (a, b) = (handles.claim(), handles.claim());
        assert_ne!(a, b);
        let mut buffer = slab.take(b);
        buffer.copy_from_slice(b"abc");
        slab.put(b, buffer);
        assert_eq!((slab.get(a), slab.get(b)), (&[][..], &b"abc"[..]));
        handles.release(b);
        assert_eq!(handles.claim(), b);
        assert_eq!(slab.take(Handle::NONE).len(), 0);
        assert_eq!(&*slab.take(b), b"abc");
    }
}

//! An engine that hides nothing: a map of blocks, and every access answered before `submit`
//! returns. What stands on engines is tested on it, and engines are tested beside it.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Mutex;
use hashbrown::HashMap;

use super::{Access, ImmediateEngine, ImmediateShape, Ticket};
use crate::{Address, Error, Result};

/// Blocks in memory. One that was never written is not there, and holds zeros.
pub struct PlainEngine {
    shape: ImmediateShape,
    zeros: Bytes,
    blocks: Mutex<HashMap<Address, Bytes>>,
}

impl PlainEngine {
    /// An empty one.
    pub fn new(shape: ImmediateShape) -> Self {
        let zeros = Bytes::from(vec![0; shape.value_bytes]);
        Self { shape, zeros, blocks: Mutex::default() }
    }

    fn access(&self, address: Address, access: Access) -> Result<Bytes> {
        self.shape.check(address, &access)?;
        let mut blocks = self.blocks.lock();
        let before = blocks.get(&address).unwrap_or(&self.zeros).clone();
        let after = access.applied_to(&before);
        if access.changes() {
            blocks.insert(address, after.clone());
        }
        Ok(access.answer(before, after))
    }
}

#[async_trait]
impl ImmediateEngine for PlainEngine {
    fn shape(&self) -> ImmediateShape {
        self.shape
    }

    fn submit(&self, address: Address, access: Access) -> Ticket {
        let (answer, ticket) = Ticket::new();
        // Whoever dropped the ticket does not want to know.
        let _unwanted = answer.send(self.access(address, access));
        ticket
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    async fn stopped(&self) -> Error {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_swap_takes_if_what_is_expected_stands_there() {
        let engine = PlainEngine::new(ImmediateShape { capacity: 1, value_bytes: 4 });
        let swap = |offset, expected: &'static [u8], bytes: &'static [u8]| {
            let access = Access::Swap { offset, expected: expected.into(), bytes: bytes.into() };
            engine.submit(Address(0), access)
        };
        assert_eq!(swap(1, b"\0\0", b"ab").await.unwrap(), &[0; 4][..]);
        assert_eq!(swap(1, b"xx", b"cd").await.unwrap(), &b"\0ab\0"[..]);
        assert_eq!(engine.submit(Address(0), Access::Read).await.unwrap(), &b"\0ab\0"[..]);
        for (offset, expected, bytes) in
            [(0, &b"a"[..], &b"bc"[..]), (3, b"ab", b"ab"), (0, b"", b""), (0, b"\0ab", b"abc")]
        {
            assert!(matches!(swap(offset, expected, bytes).await, Err(Error::Caller(_))));
        }
    }

    #[tokio::test]
    async fn a_write_patches_and_misuse_changes_nothing() {
        let engine = PlainEngine::new(ImmediateShape { capacity: 2, value_bytes: 4 });
        let write = |offset, bytes: &'static [u8]| Access::Write { offset, bytes: bytes.into() };
        assert_eq!(engine.submit(Address(1), Access::Read).await.unwrap(), &[0; 4][..]);
        let after = engine.submit(Address(1), write(1, b"ab")).await.unwrap();
        assert_eq!(after, &b"\0ab\0"[..]);
        for (address, offset, bytes) in
            [(2, 0, &b"x"[..]), (1, 3, b"xy"), (1, u32::MAX, b"x"), (1, 4, b"x"), (1, 0, b"")]
        {
            let refused = engine.submit(Address(address), write(offset, bytes)).await;
            assert!(matches!(refused, Err(Error::Caller(_))));
        }
        assert_eq!(engine.submit(Address(1), Access::Read).await.unwrap(), after);
        assert_eq!(engine.submit(Address(0), Access::Read).await.unwrap(), &[0; 4][..]);
    }
}

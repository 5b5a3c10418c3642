//! A store behind a pointer is a store, and a wrapper written as one function over calls is one.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    ArrayId, ArrayShape, BlobTag, CellReads, ChunkName, ChunkWrite, PutCondition, PutOutcome,
    Result, Store, XorCells,
};

/// Implements [`Store`] for a pointer to one.
macro_rules! store_behind {
    ($pointer:ident) => {
        #[async_trait]
        impl<S: Store + ?Sized> Store for $pointer<S> {
            async fn create_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
                (**self).create_array(array, shape).await
            }
            fn expect_array(&self, array: ArrayId, shape: ArrayShape) -> Result<()> {
                (**self).expect_array(array, shape)
            }
            async fn drop_array(&self, array: ArrayId) -> Result<()> {
                (**self).drop_array(array).await
            }
            async fn read_cells(&self, reads: &CellReads) -> Result<Vec<crate::Cell>> {
                (**self).read_cells(reads).await
            }
            async fn read_chunks(&self, chunks: &[ChunkName]) -> Result<Vec<Option<Bytes>>> {
                (**self).read_chunks(chunks).await
            }
            async fn write_chunks(&self, writes: Vec<ChunkWrite>) -> Result<()> {
                (**self).write_chunks(writes).await
            }
            async fn delete_chunks(&self, chunks: &[ChunkName]) -> Result<()> {
                (**self).delete_chunks(chunks).await
            }
            async fn list_chunks(&self, array: ArrayId) -> Result<Vec<ChunkName>> {
                (**self).list_chunks(array).await
            }
            async fn blob_get(&self, name: &str) -> Result<Option<(Bytes, BlobTag)>> {
                (**self).blob_get(name).await
            }
            async fn blob_put(
                &self,
                name: &str,
                data: Bytes,
                condition: PutCondition,
            ) -> Result<PutOutcome> {
                (**self).blob_put(name, data, condition).await
            }
            async fn blob_delete(&self, names: &[&str]) -> Result<()> {
                (**self).blob_delete(names).await
            }
            async fn blob_list(&self, prefix: &str) -> Result<Vec<String>> {
                (**self).blob_list(prefix).await
            }
            async fn barrier(&self) -> Result<()> {
                (**self).barrier().await
            }
            async fn all_left(&self) {
                (**self).all_left().await;
            }
            fn let_points_pass(&self, points: u32) {
                (**self).let_points_pass(points);
            }
            fn xor(&self) -> Option<&dyn XorCells> {
                (**self).xor()
            }
        }
    };
}

store_behind!(Arc);
store_behind!(Box);

/// Implements [`Store`] and [`XorCells`] for a wrapper that has a field `inner` (any [`Store`]) and
/// a method `async fn call(&self, call: Call<'_>) -> Result<Reply>` that every request goes
/// through.
///
/// A wrapper offers the XOR exactly when the store inside does. One that holds calls back says when
/// they have left, and holds the next one back for longer: its methods for that are the second and
/// the third argument. The crate that uses this names
/// `async_trait` and `bytes`.
#[macro_export]
macro_rules! store_by_calls {
    ($wrapper:ident) => {
        $crate::store_by_calls!(@ $wrapper (inner.all_left) (inner.let_points_pass));
    };
    ($wrapper:ident, $left:ident) => {
        $crate::store_by_calls!(@ $wrapper ($left) (inner.let_points_pass));
    };
    ($wrapper:ident, $left:ident, $pass:ident) => {
        $crate::store_by_calls!(@ $wrapper ($left) ($pass));
    };
    (@ $wrapper:ident ($($left:ident).+) ($($pass:ident).+)) => {
        #[async_trait::async_trait]
        impl<S: $crate::Store> $crate::Store for $wrapper<S> {
            async fn create_array(
                &self,
                array: $crate::ArrayId,
                shape: $crate::ArrayShape,
            ) -> $crate::Result<()> {
                self.call($crate::Call::CreateArray(array, shape)).await?.done()
            }
            fn expect_array(
                &self,
                array: $crate::ArrayId,
                shape: $crate::ArrayShape,
            ) -> $crate::Result<()> {
                self.inner.expect_array(array, shape)
            }
            async fn drop_array(&self, array: $crate::ArrayId) -> $crate::Result<()> {
                self.call($crate::Call::DropArray(array)).await?.done()
            }
            async fn read_cells(
                &self,
                reads: &$crate::CellReads,
            ) -> $crate::Result<Vec<$crate::Cell>> {
                self.call($crate::Call::ReadCells(reads)).await?.cells()
            }
            async fn read_chunks(
                &self,
                chunks: &[$crate::ChunkName],
            ) -> $crate::Result<Vec<Option<bytes::Bytes>>> {
                self.call($crate::Call::ReadChunks(chunks)).await?.chunks()
            }
            async fn write_chunks(&self, writes: Vec<$crate::ChunkWrite>) -> $crate::Result<()> {
                self.call($crate::Call::WriteChunks(writes)).await?.done()
            }
            async fn delete_chunks(&self, chunks: &[$crate::ChunkName]) -> $crate::Result<()> {
                self.call($crate::Call::DeleteChunks(chunks)).await?.done()
            }
            async fn list_chunks(
                &self,
                array: $crate::ArrayId,
            ) -> $crate::Result<Vec<$crate::ChunkName>> {
                self.call($crate::Call::ListChunks(array)).await?.names()
            }
            async fn blob_get(
                &self,
                name: &str,
            ) -> $crate::Result<Option<(bytes::Bytes, $crate::BlobTag)>> {
                self.call($crate::Call::BlobGet(name)).await?.blob()
            }
            async fn blob_put(
                &self,
                name: &str,
                data: bytes::Bytes,
                condition: $crate::PutCondition,
            ) -> $crate::Result<$crate::PutOutcome> {
                self.call($crate::Call::BlobPut(name, data, condition)).await?.put()
            }
            async fn blob_delete(&self, names: &[&str]) -> $crate::Result<()> {
                self.call($crate::Call::BlobDelete(names)).await?.done()
            }
            async fn blob_list(&self, prefix: &str) -> $crate::Result<Vec<String>> {
                self.call($crate::Call::BlobList(prefix)).await?.blob_names()
            }
            async fn barrier(&self) -> $crate::Result<()> {
                self.call($crate::Call::Barrier).await?.done()
            }
            async fn all_left(&self) {
                self.$($left).+().await;
            }
            fn let_points_pass(&self, points: u32) {
                self.$($pass).+(points);
            }
            fn xor(&self) -> Option<&dyn $crate::XorCells> {
                self.inner.xor().map(|_| self as &dyn $crate::XorCells)
            }
        }

        #[async_trait::async_trait]
        impl<S: $crate::Store> $crate::XorCells for $wrapper<S> {
            async fn read_xor(
                &self,
                reads: &$crate::CellReads,
                groups: &[u32],
            ) -> $crate::Result<Vec<$crate::Cell>> {
                self.call($crate::Call::ReadXor(reads, groups)).await?.cells()
            }
        }
    };
}

//! The oracle over traces of the real engine, honest ones and spoiled ones.

mod drive;
mod honest;

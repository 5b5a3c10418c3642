//! Disks by the protocol of network block devices, through real connections and with the tools that
//! people use.

mod client;
mod differential;
mod engines;
mod flow;
mod handshake;
mod hostile;
mod support;
mod tools;

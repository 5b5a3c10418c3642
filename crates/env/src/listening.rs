//! What is said when nothing can listen at an address that was typed.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};

/// Why nothing can listen at `address`, which was typed after `flag`, and what to type instead.
pub fn cannot_listen(flag: &str, address: SocketAddr, error: &io::Error) -> String {
    let advice = match error.kind() {
        ErrorKind::AddrInUse => {
            let free = free_beside(address);
            return format!(
                "{flag} {address} is taken by another program; stop it, or choose another port: \
                 {flag} {free}"
            );
        }
        ErrorKind::AddrNotAvailable => "; give an address of this machine, such as 127.0.0.1",
        ErrorKind::PermissionDenied => "; give a port from 1024 on",
        _ => "",
    };
    format!("{flag} {address}: {error}{advice}")
}

/// An address to take in place of one that is taken: the next port of it at which nobody listens
/// now, or whichever the system has to give.
pub fn free_beside(taken: SocketAddr) -> SocketAddr {
    let next = (1..=NEXT_PORTS).filter_map(|more| taken.port().checked_add(more));
    let mut next = next.map(|port| SocketAddr::new(taken.ip(), port));
    let free = next.find(|address| TcpListener::bind(address).is_ok());
    free.unwrap_or(SocketAddr::new(taken.ip(), 0))
}

/// So many are looked at.
const NEXT_PORTS: u16 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// The one that was named was the next one, whoever had it.
    #[test]
    fn a_port_that_is_named_is_free() {
        let listen = |port| TcpListener::bind(("127.0.0.1", port));
        // Two neighbours, whichever are free here.
        let (taken, _held) = loop {
            let first = listen(0).unwrap();
            let taken = first.local_addr().unwrap();
            if let Some(Ok(next)) = taken.port().checked_add(1).map(listen) {
                break (taken, (first, next));
            }
        };
        let named = free_beside(taken);
        assert!(named.port() == 0 || named.port() > taken.port() + 1, "{named} beside {taken}");
        let last = SocketAddr::new(taken.ip(), u16::MAX);
        assert_eq!(free_beside(last).port(), 0);
        let error = TcpListener::bind(taken).unwrap_err();
        let told = cannot_listen("--metrics", taken, &error);
        assert!(told.contains("is taken by another program") && !told.contains("os error"));
        assert!(told.contains("choose another port: --metrics 127.0.0.1:"), "{told}");
    }
}

//! The link between the two servers as the kernel makes it, in a network namespace of this process:
//! whatever is computed meanwhile, it is never late, and it takes hardly any time of processors.
//!
//! 1. This program begins anew in a namespace that has the loopback alone ([`KernelLink::enter`]).
//! 2. Each server has an address of its own there ([`address`]) beside the one that the client
//!    uses. What goes to it, and what comes from the other's, is one direction of the link.
//! 3. A direction is a class of the kernel's hierarchical token bucket, which counts bytes, too:
//!    frames as they pass, with the heads of IP and TCP.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fogbank::{Error, Result};
use fogbank_process::say_error;

/// Says that this process has a namespace of its own.
const INSIDE: &str = "--has-namespace";
/// Tools that it takes.
const UNSHARE: [&str; 4] = ["unshare", "--map-root-user", "--net", "--"];
/// Bytes a second of what is without a limit.
const UNLIMITED: u64 = 20_000_000_000;
/// A frame of the loopback, with what the kernel adds.
const FRAME_BYTES: u64 = 68_000;

/// See the module. The loopback is as it was when it is dropped.
pub struct KernelLink(());

impl Drop for KernelLink {
    fn drop(&mut self) {
        let _gone_with_the_namespace = tool("tc", "qdisc del dev lo root");
    }
}

/// Where the other reaches the server `at` that listens at this port.
pub fn address(at: usize, port: u16) -> SocketAddr {
    ([127, 0, 0, 2 + at as u8], port).into()
}

impl KernelLink {
    /// Begins this program anew in a namespace, if this machine allows that and `is_inside` does
    /// not say that it has been; then the links. None if it has to play them itself.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if the kernel lets it begin anew, but not make links.
    pub fn enter(is_inside: bool) -> Result<Option<Arc<Self>>> {
        if is_inside {
            return Ok(Some(Arc::new(Self::new()?)));
        }
        let [unshare, flags @ ..] = UNSHARE;
        let begin = |of: &[&str]| {
            let mut command = Command::new(unshare);
            command.args(flags).args(of);
            command
        };
        let tries = "ip link set lo up && tc qdisc add dev lo root handle 1: htb";
        let mut trial = begin(&["sh", "-c", tries]);
        trial.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !trial.status().is_ok_and(|status| status.success()) {
            say_error!(
                "multicloud: this program plays the link between the clouds itself, which takes \
                 time of processors and makes it late under load. The kernel does it where \
                 unshare, ip and tc are installed and namespaces are allowed"
            );
            return Ok(None);
        }
        let program = std::env::current_exe().map_err(|e| cannot("this program", &e))?;
        let mut again = begin(&[]);
        again.arg(program).args(std::env::args_os().skip(1)).arg(INSIDE);
        Err(cannot(unshare, &again.exec()))
    }

    fn new() -> Result<Self> {
        tool("ip", "link set lo up")?;
        tool("tc", "qdisc add dev lo root handle 1: htb default 3 r2q 1000")?;
        let link = Self(());
        for class in 1..=3 {
            tool("tc", &format!("class add dev lo parent 1: classid 1:{class} {}", rate(None)))?;
        }
        for (class, to, from) in [(1, 2, 3), (2, 3, 2)] {
            for side in [format!("dst 127.0.0.{to}"), format!("src 127.0.0.{from}")] {
                let filter = "filter add dev lo parent 1: protocol ip prio 1 u32 match ip";
                tool("tc", &format!("{filter} {side} flowid 1:{class}"))?;
            }
        }
        Ok(link)
    }

    /// From now on each direction carries so many bytes a second.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if the kernel does not take that.
    pub fn set(&self, bytes_per_s: Option<u64>) -> Result<()> {
        for class in [1, 2] {
            let of = format!("dev lo parent 1: classid 1:{class} {}", rate(bytes_per_s));
            tool("tc", &format!("class change {of}"))?;
        }
        Ok(())
    }

    /// Bytes so far, both ways.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if the kernel does not tell.
    pub fn bytes(&self) -> Result<u64> {
        let told = tool("tc", "-statistics class show dev lo")?;
        let both = [1, 2].map(|class| bytes_of(&told, class));
        let both = both[0].zip(both[1]).map(|(there, back)| there + back);
        both.ok_or_else(|| cannot("tc", &"it counts no bytes"))
    }
}

/// Bytes of a class, of what `tc` tells: `class htb 1:1 root ..`, then `Sent 17 bytes ..`.
fn bytes_of(told: &str, class: u8) -> Option<u64> {
    let (_, of_class) = told.split_once(&format!("class htb 1:{class} "))?;
    let (_, sent) = of_class.split_once("Sent ")?;
    sent.split_once(' ')?.0.parse().ok()
}

fn rate(bytes_per_s: Option<u64>) -> String {
    let bits = bytes_per_s.unwrap_or(UNLIMITED).saturating_mul(8);
    format!("htb rate {bits}bit burst {FRAME_BYTES} cburst {FRAME_BYTES} quantum {FRAME_BYTES}")
}

/// What a tool says.
fn tool(name: &str, words: &str) -> Result<String> {
    let output = Command::new(name).args(words.split(' ')).stdin(Stdio::null()).output();
    let output = output.map_err(|e| cannot(name, &e))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(said(&output.stdout)),
        false => Err(cannot(&format!("{name} {words}"), &said(&output.stderr))),
    }
}

fn cannot(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::CannotUse(format!("the link between the clouds: {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_class_are_found() {
        let class = |at: u8, bytes: u64| {
            format!(
                "class htb 1:{at} root prio 0 rate 240Mbit ceil 240Mbit burst 67950b\n \
                 Sent {bytes} bytes 39887 pkt (dropped 0, overlimits 16483 requeues 0)\n \
                 backlog 0b 0p requeues 0\n lended: 0 borrowed: 0 giants: 0\n"
            )
        };
        let told = class(3, 5) + &class(1, 906_686_107) + &class(2, 7);
        assert_eq!([1, 2, 4].map(|at| bytes_of(&told, at)), [Some(906_686_107), Some(7), None]);
    }
}

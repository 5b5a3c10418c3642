//! A real server beside ours.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A real Redis 7.0 that keeps nothing; killed when dropped.
pub struct Redis {
    process: Child,
    pub address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Redis {
    /// Nothing if it is not installed.
    pub async fn start() -> Option<Self> {
        let version = Command::new("redis-server").arg("--version").output().ok()?;
        if !String::from_utf8_lossy(&version.stdout).contains("v=7.0.") {
            return None;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").ok()?;
        let address = free.local_addr().ok()?;
        drop(free);
        let folder = tempfile::tempdir().ok()?;
        let process = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--save", "", "--bind", "127.0.0.1"])
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let redis = Self { process, address, _folder: folder };
        while tokio::net::TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
        Some(redis)
    }
}

//! What a volume in two clouds that is measured stands on: both clouds, the links to them and
//! between them, and the trusted disk.

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use fogbank::{Error, Result, open_store};
use fogbank_cloud::MixClient;
use fogbank_env::Clock;
use fogbank_mix::session::MixCloud;
use fogbank_store::Store;

use super::kernel::{self, KernelLink};
use super::relay::{Pipe, Relay};
use super::server::Server;
use super::sparse::Past;

/// See the module. All of it ends when it is dropped.
pub struct Ground {
    /// The ways to both, across the client's link.
    pub clouds: [Arc<dyn MixCloud>; 2],
    /// What the first keeps beside levels.
    pub store: Arc<dyn Store>,
    /// The trusted disk.
    pub journal: Arc<dyn Store>,
    /// Each direction of the client's link, up first.
    pub client: [Arc<Pipe>; 2],
    /// The link between the clouds.
    pub between: Between,
    /// What each has that nobody wrote.
    pub pasts: [Arc<Past>; 2],
    /// Whoever goes on while this is here.
    pub runs: Box<dyn Any + Send + Sync>,
}

/// The link between the clouds.
pub enum Between {
    /// Kept by the kernel.
    Kernel(Arc<KernelLink>),
    /// Played, each direction by itself.
    Played([Arc<Pipe>; 2]),
}

impl Between {
    /// From now on it carries so much each way.
    ///
    /// # Errors
    /// Those of [`KernelLink`].
    pub fn set(&self, bytes_per_s: Option<u64>) -> Result<()> {
        match self {
            Self::Kernel(link) => link.set(bytes_per_s)?,
            Self::Played(pipes) => pipes.iter().for_each(|pipe| pipe.set(bytes_per_s, 0)),
        }
        Ok(())
    }

    /// Bytes so far, both ways together.
    ///
    /// # Errors
    /// Those of [`KernelLink`].
    pub fn bytes(&self) -> Result<u64> {
        match self {
            Self::Kernel(link) => link.bytes(),
            Self::Played(pipes) => Ok(pipes.iter().map(|pipe| pipe.bytes()).sum()),
        }
    }
}

impl Ground {
    /// Two servers; the link between them is played if there is none of the kernel. Those of a
    /// sparse volume are within this process.
    ///
    /// # Errors
    /// [`Error::CannotUse`] if servers cannot be begun.
    pub async fn new(
        is_sparse: bool,
        kernel: Option<Arc<KernelLink>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        // In a namespace of its own nobody else is at the other addresses of the loopback.
        let ip = if kernel.is_some() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
        let ports = [free_port(ip)?, free_port(ip)?];
        let client = [Pipe::new(clock), Pipe::new(clock)];
        let to_client = |at: usize| {
            let to = (Ipv4Addr::LOCALHOST, ports[at].port()).into();
            Relay::new(to, client.clone())
        };
        let ways = [to_client(0).await?, to_client(1).await?];
        let (between, across, relays) = link_between(ports, kernel, clock).await?;
        let pasts = [Past::new(0), Past::new(1)];
        let pasts_of = &pasts;
        let server = async |at: usize, beside: SocketAddr| match is_sparse {
            true => Server::within(ports[at], beside, clock, pasts_of[at].clone()).await,
            false => Server::new(ports[at], beside, &**clock).await,
        };
        let servers = [server(0, across[1]).await?, server(1, across[0]).await?];
        let way = |at: usize| -> Result<Arc<dyn MixCloud>> {
            let (own, other) =
                (servers[at].url(ways[at].place), servers[1 - at].url(across[1 - at]));
            let way = MixClient::open(&own, &other, clock);
            Ok(Arc::new(way.map_err(|e| Error::CannotUse(e.to_string()))?))
        };
        let clouds = [way(0)?, way(1)?];
        let store = open_store(&servers[0].url(ways[0].place), clock).await?;
        let trusted = tempfile::tempdir();
        let trusted = trusted.map_err(|e| Error::CannotUse(format!("no folder for a run: {e}")))?;
        let journal = open_store(&format!("file://{}", trusted.path().display()), clock).await?;
        let runs = Box::new((servers, ways, relays, trusted));
        Ok(Self { clouds, store, journal, client, between, pasts, runs })
    }
}

/// With the addresses at which the servers of these ports reach each other, and who plays it.
async fn link_between(
    ports: [SocketAddr; 2],
    kernel: Option<Arc<KernelLink>>,
    clock: &Arc<dyn Clock>,
) -> Result<(Between, [SocketAddr; 2], Vec<Relay>)> {
    if let Some(link) = kernel {
        let places = [0, 1].map(|at| kernel::address(at, ports[at].port()));
        return Ok((Between::Kernel(link), places, Vec::new()));
    }
    let pipes = [Pipe::new(clock), Pipe::new(clock)];
    // The way to the first is the second's, and the other way round.
    let back = [pipes[1].clone(), pipes[0].clone()];
    let ways = [Relay::new(ports[0], back).await?, Relay::new(ports[1], pipes.clone()).await?];
    let places = [ways[0].place, ways[1].place];
    Ok((Between::Played(pipes), places, ways.into()))
}

fn free_port(ip: Ipv4Addr) -> Result<SocketAddr> {
    let port = TcpListener::bind((ip, 0)).and_then(|socket| socket.local_addr());
    port.map_err(|e| Error::CannotUse(format!("no port for a server: {e}")))
}

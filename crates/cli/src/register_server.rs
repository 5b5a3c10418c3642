//! `fogbank register-server`: one of the servers that keep freshness registers, until a signal says
//! stop.

use std::sync::Arc;

use fogbank::args::RegisterServerArgs;
use fogbank::{Error, Result};
use fogbank_env::{SystemClock, cannot_listen};
use fogbank_peer::{Bound, RegisterServer, ServerError};
use fogbank_process::{say, say_error};
use fogbank_terminal::{address, log_to_standard_error, stop_signal};
use tokio::net::TcpListener;

/// Serves until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// By blame, see [`Error`].
pub async fn run(args: RegisterServerArgs) -> Result<()> {
    log_to_standard_error();
    let listen = address("--listen", &args.listen)?;
    // Before the folder: a port that is taken leaves nothing behind.
    let socket = TcpListener::bind(listen).await;
    let socket = socket.map_err(|e| Error::Usage(cannot_listen("--listen", listen, &e)))?;
    let server = RegisterServer::open(&args.data).map_err(explain)?;
    let bound = server.on(socket).map_err(explain)?;
    let stop = stop_signal()?;
    greet(&bound);
    bound.serve(Arc::new(SystemClock::new()), stop).await;
    say_error!("stopped; everything acknowledged is kept");
    Ok(())
}

fn explain(error: ServerError) -> Error {
    Error::CannotUse(error.to_string())
}

/// Says where the secret stands, never what it is, and what to do with it.
fn greet(bound: &Bound) {
    let (file, listening) = (bound.address_file().display(), &bound.address().place);
    say!("fogbank {} register server", fogbank_process::VERSION);
    say!("  address  {file} (one line, a secret: whoever has it may keep registers here)");
    say!(
        "  next     append that line to a file of mode 0600 at the proxy, with those of the other"
    );
    say!("           servers (3 or 5 in all), HOST as the proxy reaches it, then:");
    say!("           fogbank serve --registers FILE");
    say!("  stop     Ctrl-C or SIGTERM");
    say!("listening on {listening}");
}

//! The token that a server shows to another in `multicloud`, over real sockets.

use fogbank_cloud::Keeping;

use crate::fixture::Server;
use crate::raw::{PATH, Raw, status, still_serves};

/// Where clients of a tenant call, with its token.
const OF_CLIENTS: [&str; 3] = [PATH, "/fogbank.cloud.v1.Log/Call", "/fogbank.cloud.v1.Mix/Session"];
/// Where the other server calls, with one that follows from it.
const OF_SERVERS: &str = "/fogbank.cloud.v1.Mix/Across";

/// What one of both opens, the other does not: no server gets what it could read at the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_to_mix_opens_nothing_else_and_no_other_token_mixes() {
    let server = Server::start(Keeping::Memory).await;
    let token = server.credentials("a").token;
    for (shown, mixes) in [(token.clone(), false), (token.for_mixing(), true)] {
        for path in OF_CLIENTS.into_iter().chain([OF_SERVERS]) {
            let names = ["server_calls_total", "server_turned_away_total"];
            let figures = || names.map(|name| server.figure(name));
            let before = figures();
            let caller = Raw::showing(&server, "a", &shown).await;
            let answer = tokio::spawn(async move {
                status(caller.call_at(path, tokio_stream::empty()).await.ok()?).await
            });
            let is_let_in = mixes == (path == OF_SERVERS);
            if is_let_in && mixes {
                // It waits for a client that opens a volume here.
                while figures() == before {
                    tokio::task::yield_now().await;
                }
                answer.abort();
            } else {
                let said = answer.await.unwrap();
                assert_eq!(said.as_deref() != Some("16"), is_let_in, "{path}: {said:?}");
            }
            let [_, turned_away] = figures();
            assert_eq!(turned_away - before[1], u64::from(!is_let_in), "{path} {mixes}");
        }
    }
    still_serves(&server).await;
}

//! The network under Amazon's library: the HTTP client that object stores use, so one TLS, one set
//! of authorities and one set of limits serve all. A reply is read no further than
//! [`REPLY_BYTES_MAX`].

use std::fmt;

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use bytes::Bytes;
use object_store::ClientOptions;
use object_store::client::HttpClient as Client;
use reqwest::tls::Certificate;

use crate::error::Failure;
use crate::requests::{broken, read};
use crate::retry::{Attempt, Trouble};
use crate::transport;

/// Why the network brought no answer, carried through the library as the cause of its own error.
#[derive(Debug, thiserror::Error)]
#[error("{failure}")]
pub(crate) struct Broken {
    /// `None` if another try would not help.
    pub trouble: Option<Trouble>,
    pub failure: Failure,
}

/// The library's client for requests with these `options`.
pub(crate) fn client(
    options: &ClientOptions,
    authorities: &[Certificate],
) -> object_store::Result<SharedHttpClient> {
    Ok(SharedHttpClient::new(Wire(transport::client(options, authorities)?)))
}

#[derive(Clone)]
struct Wire(Client);

impl HttpClient for Wire {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.clone();
        HttpConnectorFuture::new(async move { exchange(&client, request).await })
    }
}

async fn exchange(client: &Client, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
    let request = request.try_into_http1x().map_err(|e| ConnectorError::user(e.into()))?;
    let (parts, body) = request.into_parts();
    let body = body.bytes().map(Bytes::copy_from_slice).unwrap_or_default();
    let request = http::Request::from_parts(parts, body.into());
    let reply = async {
        let (parts, body) = client.execute(request).await.map_err(broken)?.into_parts();
        let body = read(body, REPLY_BYTES_MAX).await?;
        Ok(http::Response::from_parts(parts, body))
    };
    let reply = reply.await.map_err(|attempt| {
        let (trouble, failure) = match attempt {
            Attempt::Failed(trouble, failure) => (Some(trouble), failure),
            Attempt::Over(failure) => (None, failure),
        };
        ConnectorError::other(Box::new(Broken { trouble, failure }), None)
    })?;
    HttpResponse::try_from(reply.map(Into::into)).map_err(|e| ConnectorError::user(e.into()))
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

/// A batch has 16 MiB, which are a third more as text.
const REPLY_BYTES_MAX: u64 = 32 << 20;

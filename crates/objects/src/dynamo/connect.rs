//! From the environment to a client of Amazon's library with the right credentials, region and
//! endpoint.
//!
//! Credentials are those that `credentials` finds for S3. Region: `AWS_REGION` or
//! `AWS_DEFAULT_REGION`. Endpoint: `AWS_ENDPOINT_URL_DYNAMODB` or `AWS_ENDPOINT_URL`. What the
//! library would do by itself and at times of its own (retries, timeouts, keeping credentials) is
//! off.

use std::sync::Arc;

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Config, Credentials, IdentityCache, ProvideCredentials, Region,
    StalledStreamProtectionConfig,
};
use fogbank_env::Clock;
use fogbank_store::{Result, StoreError};
use object_store::aws::AwsCredentialProvider;

use crate::credentials::{amazon_credentials, authorities, check_endpoint, client_options};
use crate::dynamo::wire;
use crate::environment::Environment;
use crate::error::failure;
use crate::requests::{Connector, Requests};
use crate::store::ObjectsOptions;

/// A client by what `environment` says.
pub(crate) fn connect(environment: &Environment, clock: Arc<dyn Clock>) -> Result<Client> {
    let env = environment;
    let endpoint = env.get("AWS_ENDPOINT_URL_DYNAMODB").or_else(|| env.get("AWS_ENDPOINT_URL"));
    let http = check_endpoint(endpoint, env, "AWS_ALLOW_HTTP")?;
    let region = env.get("AWS_REGION").or_else(|| env.get("AWS_DEFAULT_REGION"));
    let region = region.or(endpoint.map(|_| "us-east-1")).ok_or_else(|| {
        StoreError::Caller("the region of the table is not known: set AWS_REGION".into())
    })?;
    // Of their own, with places of their own: a request that waits for a key holds one of the
    // others.
    let ObjectsOptions { absent, throttled, .. } = ObjectsOptions::default();
    let requests = Requests::new(PLACES_FOR_KEYS, clock, absent, throttled);
    let connector = Connector { requests, authorities: Vec::new() };
    let provider = Roles(amazon_credentials(env, connector)?);
    let unusable = |e| StoreError::Caller(failure(&e).words);
    let wire = wire::client(&client_options(http), &authorities(env)?).map_err(unusable)?;
    let mut config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(region.to_owned()))
        .credentials_provider(provider)
        .identity_cache(IdentityCache::no_cache()) // the provider keeps and renews them
        .http_client(wire)
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Some(endpoint) = endpoint {
        config = config.endpoint_url(endpoint);
    }
    Ok(Client::from_conf(config.build()))
}

/// Whoever has the credentials: the environment, a profile, a role.
#[derive(Debug)]
struct Roles(AwsCredentialProvider);

impl ProvideCredentials for Roles {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let found = self.0.get_credential().await;
            let found = found.map_err(|e| CredentialsError::provider_error(failure(&e)))?;
            let (id, secret) = (found.key_id.clone(), found.secret_key.clone());
            Ok(Credentials::new(id, secret, found.token.clone(), None, "fogbank"))
        })
    }
}

const PLACES_FOR_KEYS: usize = 4;

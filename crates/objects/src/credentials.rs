//! From a URL and the environment to a connection with the right credentials and endpoint.
//!
//! Read as each cloud's own tools read them:
//!
//! - S3: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`,
//!   `AWS_ENDPOINT_URL[_S3]`, `AWS_ALLOW_HTTP`, `AWS_CA_BUNDLE`, web identity, container and
//!   instance roles. A profile that holds a key is read from its file (`profile`).
//! - Azure: `AZURE_STORAGE_ACCOUNT` and `AZURE_STORAGE_KEY`, or `AZURE_STORAGE_SAS_TOKEN`, or
//!   `AZURE_STORAGE_CONNECTION_STRING`, service principals, managed identity; `AZURE_ALLOW_HTTP`.
//! - Google: `GOOGLE_APPLICATION_CREDENTIALS`, what `gcloud auth` left, the instance's service
//!   account; `STORAGE_EMULATOR_HOST` for an emulator, which takes no credentials.
//!
//! An endpoint without TLS is refused unless the environment allows it: contents are sealed, but
//! whoever is on the way sees what the cloud sees, and can repeat what he saw.

use std::sync::Arc;
use std::time::Duration;

use fogbank_store::{Result, StoreError};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientOptions, RetryConfig, StaticCredentialProvider};
use reqwest::tls::Certificate;

use crate::environment::Environment;
use crate::objects::Bucket;
use crate::profile;
use crate::requests::Connector;
use crate::url::{ObjectsUrl, Provider};

/// The library's store for `url`, whose requests go through `connector`.
pub(crate) fn connect(
    url: &ObjectsUrl,
    environment: &Environment,
    connector: Connector,
) -> Result<Arc<dyn Bucket>> {
    match url.provider {
        Provider::S3 => s3(url, environment, connector),
        Provider::Azure => azure(url, environment, connector),
        Provider::Google => google(url, environment, connector),
    }
}

fn s3(url: &ObjectsUrl, env: &Environment, connector: Connector) -> Result<Arc<dyn Bucket>> {
    let builder = amazon(env)?.with_bucket_name(&url.bucket);
    let endpoints = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let endpoint = endpoints.iter().find_map(|key| builder.get_config_value(key));
    let http = check_endpoint(endpoint.as_deref(), env, "AWS_ALLOW_HTTP")?;
    let builder = builder
        .with_client_options(client_options(http))
        .with_retry(once())
        .with_http_connector(Connector { authorities: authorities(env)?, ..connector });
    Ok(Arc::new(builder.build().map_err(|e| unusable(&e))?))
}

/// Who asks for the credentials of Amazon's services, whichever of them they are for.
#[cfg(feature = "dynamodb")]
pub(crate) fn amazon_credentials(
    env: &Environment,
    connector: Connector,
) -> Result<object_store::aws::AwsCredentialProvider> {
    let builder = amazon(env)?
        .with_bucket_name("none")
        .with_client_options(client_options(true)) // the services of a machine's role have no TLS
        .with_retry(once())
        .with_http_connector(connector);
    Ok(builder.build().map_err(|e| unusable(&e))?.credentials().clone())
}

fn amazon(env: &Environment) -> Result<AmazonS3Builder> {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in env.starting("AWS_") {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>()
            && !matches!(key, AmazonS3ConfigKey::Bucket | AmazonS3ConfigKey::ConditionalPut)
        {
            builder = builder.with_config(key, value);
        }
    }
    let role = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
    if env.get("AWS_ACCESS_KEY_ID").is_none()
        && role.iter().all(|name| env.get(name).is_none())
        && let Some(profile) = profile::read(env)?
    {
        builder = builder.with_access_key_id(profile.key_id).with_secret_access_key(profile.secret);
        if let Some(token) = profile.token {
            builder = builder.with_token(token);
        }
    }
    Ok(builder)
}

fn azure(url: &ObjectsUrl, env: &Environment, connector: Connector) -> Result<Arc<dyn Bucket>> {
    let mut builder = MicrosoftAzureBuilder::new();
    for (name, value) in env.starting("AZURE_") {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AzureConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    // What the cloud's own tools call them.
    let own = [
        ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
        ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
    ];
    for (name, key) in own {
        if let Some(value) = env.get(name) {
            builder = builder.with_config(key, value);
        }
    }
    for part in env.get("AZURE_STORAGE_CONNECTION_STRING").unwrap_or_default().split(';') {
        let Some((name, value)) = part.split_once('=') else { continue };
        let key = match name.trim() {
            "AccountName" => AzureConfigKey::AccountName,
            "AccountKey" => AzureConfigKey::AccessKey,
            "SharedAccessSignature" => AzureConfigKey::SasKey,
            "BlobEndpoint" => AzureConfigKey::Endpoint,
            _ => continue,
        };
        builder = builder.with_config(key, value.trim());
    }
    if let Some(identity) = env.get("IDENTITY_ENDPOINT") {
        builder = builder.with_msi_endpoint(identity);
    }
    let emulator = env.get("AZURE_STORAGE_USE_EMULATOR").is_some_and(|value| value != "false");
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    let http = check_endpoint(endpoint.as_deref(), env, "AZURE_ALLOW_HTTP")? || emulator;
    let builder = builder
        .with_container_name(&url.bucket)
        .with_client_options(client_options(http))
        .with_retry(once())
        .with_http_connector(connector);
    Ok(Arc::new(builder.build().map_err(|e| unusable(&e))?))
}

fn google(url: &ObjectsUrl, env: &Environment, connector: Connector) -> Result<Arc<dyn Bucket>> {
    let mut builder = GoogleCloudStorageBuilder::new();
    for (name, value) in env.starting("GOOGLE_") {
        if let Ok(key) = name.to_ascii_lowercase().parse::<GoogleConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let emulator = env.get("STORAGE_EMULATOR_HOST").map(|host| match host.contains("://") {
        true => host.trim_end_matches('/').to_owned(),
        false => format!("http://{host}"),
    });
    let http = match &emulator {
        Some(_) => true,
        None => {
            let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
            check_endpoint(endpoint.as_deref(), env, "GOOGLE_ALLOW_HTTP")?
        }
    };
    if let Some(emulator) = emulator {
        // An empty token; without any, the library would ask the instance for one before it puts.
        let nobody = GcpCredential { bearer: String::new() };
        let nobody = Arc::new(StaticCredentialProvider::new(nobody));
        builder = builder.with_base_url(&emulator).with_credentials(nobody);
    }
    let builder = builder
        .with_bucket_name(&url.bucket)
        .with_client_options(client_options(http))
        .with_retry(once())
        .with_http_connector(connector);
    Ok(Arc::new(builder.build().map_err(|e| unusable(&e))?))
}

/// Whether the endpoint may be, and is, without TLS.
pub(crate) fn check_endpoint(
    endpoint: Option<&str>,
    env: &Environment,
    permission: &str,
) -> Result<bool> {
    let Some(endpoint) = endpoint else { return Ok(false) };
    if endpoint.contains('@') {
        let words = "the endpoint of the object store holds credentials: set them apart from it";
        return Err(StoreError::Caller(words.into()));
    }
    if endpoint.starts_with("https://") {
        return Ok(false);
    }
    let allowed = env.get(permission).is_some_and(|value| ["1", "true"].contains(&value));
    if endpoint.starts_with("http://") && allowed {
        return Ok(true);
    }
    let example = if endpoint.contains("://") { "" } else { "; it must begin with https://" };
    Err(StoreError::Caller(format!(
        "the endpoint {endpoint} is without TLS{example}: everybody on the way would see what the \
         cloud sees. Use https://, or set {permission}=true if nobody is (an emulator on this \
         machine)"
    )))
}

pub(crate) fn client_options(http: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(http)
        .with_connect_timeout(CONNECT)
        .with_timeout(ANSWER)
        .with_pool_max_idle_per_host(usize::MAX) // as many as there were at once
}

/// The authorities of a file, to be trusted, too: those of a server of one's own.
pub(crate) fn authorities(env: &Environment) -> Result<Vec<Certificate>> {
    let Some(bundle) = env.get("AWS_CA_BUNDLE") else { return Ok(Vec::new()) };
    let wrong = |e: String| StoreError::Caller(format!("AWS_CA_BUNDLE, {bundle}: {e}"));
    let text = std::fs::read(bundle).map_err(|e| wrong(e.to_string()))?;
    Certificate::from_pem_bundle(&text).map_err(|e| wrong(e.to_string()))
}

/// No tries beyond the first: `retry` decides about those.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Settings that the library does not take. It names what is missing and quotes no value.
fn unusable(error: &object_store::Error) -> StoreError {
    let words = crate::error::failure(error).words;
    StoreError::Caller(format!("the settings of the object store in the environment: {words}"))
}

const CONNECT: Duration = Duration::from_secs(5);
/// Of a whole request: a part of 8 MiB at 1 Mbit/s.
const ANSWER: Duration = Duration::from_secs(70);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_without_tls_needs_permission() {
        let none = Environment::default();
        let allowed: Environment = [("AWS_ALLOW_HTTP", "true")].into_iter().collect();
        let check = |endpoint, env| check_endpoint(Some(endpoint), env, "AWS_ALLOW_HTTP");
        assert!(matches!(check("https://s3.example", &none), Ok(false)));
        assert!(matches!(check("http://127.0.0.1:9", &allowed), Ok(true)));
        for refused in ["http://127.0.0.1:9", "s3.example", "ftp://s3.example"] {
            let words = check(refused, &none).unwrap_err().to_string();
            assert!(words.contains("AWS_ALLOW_HTTP=true") && words.contains("https://"), "{words}");
        }
        let words = check("https://user:hush@host", &allowed).unwrap_err().to_string();
        assert!(!words.contains("hush"), "{words}");
    }
}

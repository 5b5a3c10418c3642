//! The profile of Amazon's own tools: a key in `~/.aws/credentials`, if there is one.
//!
//! Only what stands there as it is. A profile that gets its key from elsewhere (single sign-on, an
//! assumed role, a program) is refused with the command that brings the key into the environment.

use std::io::ErrorKind;
use std::path::PathBuf;

use fogbank_store::{Result, StoreError};

use crate::environment::Environment;

/// A key.
pub(crate) struct Profile {
    pub key_id: String,
    pub secret: String,
    pub token: Option<String>,
}

/// The key of `AWS_PROFILE`, or of the profile `default`; `None` if nobody asked for one and there
/// is none.
pub(crate) fn read(env: &Environment) -> Result<Option<Profile>> {
    let asked = env.get("AWS_PROFILE");
    let name = asked.unwrap_or("default");
    let file = env
        .get("AWS_SHARED_CREDENTIALS_FILE")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env.get("HOME")?).join(".aws/credentials")));
    let text = match file.as_ref().map(std::fs::read_to_string) {
        Some(Ok(text)) => text,
        Some(Err(e)) if e.kind() != ErrorKind::NotFound && asked.is_some() => {
            let file = file.unwrap_or_default();
            return Err(StoreError::Caller(format!("{}: {e}", file.display())));
        }
        _ => String::new(),
    };
    match (parse(&text, name), asked) {
        (Some(profile), _) => Ok(Some(profile)),
        (None, None) => Ok(None),
        (None, Some(name)) => Err(StoreError::Caller(format!(
            "the profile {name:?} holds no key of its own; put one into the environment with: \
             eval \"$(aws configure export-credentials --profile {name} --format env)\""
        ))),
    }
}

fn parse(text: &str, name: &str) -> Option<Profile> {
    let mut within = false;
    let (mut key_id, mut secret, mut token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            within = section.trim() == name;
        } else if within && let Some((key, value)) = line.split_once('=') {
            let value = Some(value.trim().to_owned());
            match key.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(Profile { key_id: key_id?, secret: secret?, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_with_a_key_is_read_and_another_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let text = "[default]\naws_access_key_id = A\naws_secret_access_key=hush\n\n# b\n[work]\n\
                    sso_session = x\n[temporary]\naws_access_key_id=T\naws_secret_access_key = s=\n\
                    aws_session_token = t";
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let with = |profile: Option<&str>| {
            let mut variables = vec![("AWS_SHARED_CREDENTIALS_FILE", file)];
            variables.extend(profile.map(|profile| ("AWS_PROFILE", profile)));
            read(&variables.into_iter().collect())
        };
        let default = with(None).ok().flatten().unwrap();
        assert_eq!((default.key_id.as_str(), default.secret.as_str()), ("A", "hush"));
        let temporary = with(Some("temporary")).ok().flatten().unwrap();
        assert_eq!((temporary.secret.as_str(), temporary.token.as_deref()), ("s=", Some("t")));
        for without in ["work", "nowhere"] {
            let words = with(Some(without)).err().unwrap().to_string();
            assert!(words.contains("export-credentials") && !words.contains("hush"), "{words}");
        }
        assert!(read(&Environment::default()).ok().unwrap().is_none());
    }
}

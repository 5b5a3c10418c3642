//! Those who work at hospitals.

use async_trait::async_trait;
use bytes::Bytes;
use fogbank_env::Stream;
use fogbank_txn::Key;
use rand::RngExt;

use super::plan::Plan;
use super::reads::row;
use super::rows::User;
use super::transaction::Body;
use crate::database::{Effect, Result, Statements};
use crate::record::Reader;

pub(super) fn login(user: u32) -> Bytes {
    format!("login{user:08}").into()
}

pub(super) fn password(user: u32) -> Bytes {
    format!("password{user:08}").into()
}

/// The key of the number of a user who is known by login alone.
pub(super) fn by_login(login: &[u8]) -> Key {
    Key::new(b"l", login)
}

/// Somebody logs in. Declines if the password is wrong, as half of them are.
pub(super) struct CheckLogin {
    login: Bytes,
    password: Bytes,
}

#[async_trait]
impl Body for CheckLogin {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        let user = plan.user(stream);
        let wrong = stream.random_bool(0.5);
        let password = if wrong { Bytes::from_static(b"wrong") } else { password(user) };
        Self { login: login(user), password }
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        let id = Reader::must(on.get(&by_login(&self.login)).await?, "login")?.u32()?;
        let user = row::<User>(on, id).await?;
        let right = user.login == self.login && user.password == self.password;
        Ok(if right { Effect::DONE } else { Effect::DECLINED })
    }
}

/// One user.
pub(super) struct GetUser(u32);

#[async_trait]
impl Body for GetUser {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self {
        Self(plan.user(stream))
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        row::<User>(on, self.0).await?;
        Ok(Effect::DONE)
    }
}

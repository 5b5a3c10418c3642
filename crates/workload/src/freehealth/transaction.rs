//! What a transaction of FreeHealth is: parameters, drawn, and a body that is run with them.

use async_trait::async_trait;
use fogbank_env::Stream;

use super::plan::Plan;
use crate::database::{Effect, Procedure, Result, Statements};

/// One of the transactions.
#[async_trait]
pub(super) trait Body: Send + Sync + 'static {
    fn draw(plan: &Plan, stream: &mut Stream) -> Self
    where
        Self: Sized;

    async fn run(&self, on: &dyn Statements) -> Result<Effect>;
}

struct Drawn<B> {
    kind: usize,
    body: B,
}

/// Draws a transaction that is of this kind.
pub(super) fn draw<B: Body>(kind: usize, plan: &Plan, stream: &mut Stream) -> Box<dyn Procedure> {
    Box::new(Drawn { kind, body: B::draw(plan, stream) })
}

#[async_trait]
impl<B: Body> Procedure for Drawn<B> {
    fn kind(&self) -> usize {
        self.kind
    }

    async fn run(&self, on: &dyn Statements) -> Result<Effect> {
        self.body.run(on).await
    }
}

//! The Rust client: asynchronous, one connection shared by many tasks.

use std::collections::{BTreeSet, HashMap};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use crate::server::Server;

async fn connect(server: &Server) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}/", server.port));
    let client = client.expect("a client");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.expect("a connection")
}

#[tokio::test]
async fn a_thousand_increments_at_once_return_each_number_once() {
    let server = Server::subject();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let connection = connect(&server).await;
        for _ in 0..100 {
            let mut connection = connection.clone();
            tasks.spawn(async move { connection.incr::<_, _, u64>("n", 1).await });
        }
    }
    let mut answers = BTreeSet::new();
    while let Some(answer) = tasks.join_next().await {
        answers.insert(answer.expect("the task ends").expect("a number"));
    }
    assert_eq!(answers, (1..=1_000).collect());
}

#[tokio::test]
async fn every_type_and_a_transaction() -> redis::RedisResult<()> {
    let server = Server::subject();
    let mut r = connect(&server).await;
    let _: () = r.set("s", "value").await?;
    assert_eq!(r.get::<_, Option<String>>("s").await?.as_deref(), Some("value"));
    let _: () = r.hset_multiple("h", &[("a", 1), ("b", 2)]).await?;
    let expected = HashMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert_eq!(r.hgetall::<_, HashMap<String, i64>>("h").await?, expected);
    let _: () = r.zadd_multiple("z", &[(1.5, "x"), (0.5, "y")]).await?;
    let scored: Vec<(String, f64)> = r.zrange_withscores("z", 0, -1).await?;
    assert_eq!(scored, [("y".to_owned(), 0.5), ("x".to_owned(), 1.5)]);

    let mut pipe = redis::pipe();
    pipe.atomic().set("n", 1).ignore().incr("n", 2).get("s");
    let answers: (i64, String) = pipe.query_async(&mut r).await?;
    assert_eq!(answers, (3, "value".to_owned()));
    let error = r.incr::<_, _, i64>("s", 1).await.expect_err("not a number");
    assert!(error.to_string().contains("not an integer"), "{error}");
    Ok(())
}

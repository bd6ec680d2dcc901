//! A server learns which rules its clients enforce.

use std::time::Duration;

use protocol::{Response, Status, feature, kind};
use tokio::io::DuplexStream;

use super::{
    fallback::rules,
    net::client,
    peer::{Asked, Peer},
};
use crate::Client;

const A: &str = "10.0.0.1:18730";

fn flow(id: i64) -> String {
    format!(
        r#"[{{"resource": "r", "count": 1, "clusterMode": true, "clusterConfig": {{"flowId": {id}}}}}]"#
    )
}

/// The digest that the client tells; the server thanks for it.
async fn told(peer: &mut Peer<DuplexStream>) -> u64 {
    match peer.asked().await {
        Some(Asked::Rules { xid, digest }) => {
            peer.send(&[Response::Head { xid, kind: kind::RULES, status: Status::Ok }]).await;
            digest
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_told_the_rules_when_it_is_new_and_when_they_change() {
    let (client, mut world) = client(Client::builder(), &[A]);
    client.set_rules(rules(&flow(1))).unwrap();
    let (_, mut peer) = world.accept().await;
    peer.greet_as_ours(1, feature::RULES).await;
    let first = told(&mut peer).await;
    client.set_rules(rules(&flow(1))).unwrap();
    client.set_rules(rules(&flow(2))).unwrap();
    let second = told(&mut peer).await;
    assert!(first != second && first != 0, "equal rules are not told again");

    drop(peer);
    let (_, mut peer) = world.accept().await;
    peer.greet_as_ours(1, feature::RULES).await;
    assert_eq!(told(&mut peer).await, second, "another server");
    client.set_rules(Vec::new()).unwrap();
    assert_eq!(told(&mut peer).await, 0);
    client.ready(Duration::from_secs(1)).await.unwrap();
    assert_eq!(client.metrics().stray_answers, 0, "thanks are expected");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_want_to_know_is_not_told() {
    let (client, mut world) = client(Client::builder(), &[A]);
    client.set_rules(rules(&flow(1))).unwrap();
    let (_, mut peer) = world.accept().await;
    peer.greet_as_ours(1, feature::ASK).await;
    client.ready(Duration::from_secs(1)).await.unwrap();
    client.set_rules(rules(&flow(2))).unwrap();
    let (asked, _) = tokio::join!(peer.asked(), client.acquire(7, 1, false));
    assert!(matches!(asked, Some(Asked::Flow { flow_id: 7, .. })), "{asked:?}");
}

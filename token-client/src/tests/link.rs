//! Where a client connects, and when it tries again.

use std::{num::NonZeroUsize, time::Duration};

use protocol::{Response, Status};
use tokio::{task::JoinSet, time::sleep};

use super::{
    log::{lines, recorder},
    net::{Port, client, network},
    peer::Asked,
};
use crate::{Client, ConnectionState, LinkError, NoAnswer, time::now};

const A: &str = "10.0.0.1:18730";
const B: &str = "10.0.0.2:18730";
const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test(start_paused = true)]
async fn after_half_an_hour_of_outage_a_server_is_found_within_ten_seconds() {
    let (client, mut world) = client(Client::builder(), &[A]);
    world.set(A, Port::Refuses);
    let started = now();
    sleep(Duration::from_secs(1_800)).await;
    let attempts = world.attempts();
    let gaps = attempts.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let longest = gaps.max().unwrap();
    assert!(longest <= Duration::from_secs(10), "{longest:?}");
    // Five seconds on average once the cap is reached.
    assert!((280..440).contains(&attempts.len()), "{} attempts", attempts.len());
    world.open(A);
    let (_, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(LONG).await.unwrap();
    assert!(started.elapsed() <= Duration::from_secs(1_810), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_clients_of_a_server_that_comes_back_do_not_come_at_once() {
    let mut clients = Vec::new();
    for seed in 0..100 {
        let (net, world) = network();
        world.set(A, Port::Refuses);
        let mut builder = Client::builder().server(A);
        builder.random = fastrand::Rng::with_seed(seed);
        clients.push((builder.start(net).unwrap(), world));
    }
    sleep(Duration::from_secs(300)).await;
    let back = now();
    clients.iter().for_each(|(_, world)| world.open(A));
    sleep(Duration::from_secs(10)).await;
    let mut seconds = [0; 10];
    for (_, world) in &clients {
        let attempts = world.attempts();
        let found = attempts.iter().find(|(at, _)| *at >= back).expect("within the cap").0 - back;
        seconds[usize::try_from(found.as_secs()).unwrap().min(9)] += 1;
    }
    assert!(seconds.iter().all(|&n| n <= 30), "{seconds:?}");
}

#[tokio::test(start_paused = true)]
async fn servers_are_tried_in_order_and_names_are_resolved_anew() {
    let (net, mut world) = network();
    world.name("tokens", &["10.0.0.9:18730", B]);
    world.open(B);
    let builder = Client::builder().server("nowhere").server(A).server("tokens");
    let client = builder.start(net).unwrap();
    let (address, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(LONG).await.unwrap();
    assert_eq!(address, B);
    let tried: Vec<String> = world.attempts().iter().map(|(_, at)| at.to_string()).collect();
    assert_eq!(tried, [A, "10.0.0.9:18730", B]);

    world.name("tokens", &["10.0.0.7:18730"]);
    world.open("10.0.0.7:18730");
    drop(peer);
    let (address, mut peer) = world.accept().await;
    peer.greet(1).await;
    assert_eq!(address, "10.0.0.7:18730");
    client.ready(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_failure_of_a_round_is_told_once_and_again_when_it_changes() {
    let (net, mut world) = network();
    let (recorder, mut heard) = recorder();
    let client =
        Client::builder().server("nowhere").server(A).listener(recorder).start(net).unwrap();
    let state = heard.connection().await.to_string();
    assert_eq!(
        state,
        "nowhere:18730: the name does not resolve: no such name; \
         10.0.0.1:18730: cannot connect: connection refused"
    );
    let error = client.ready(Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("no token server within 60s: {state}"));
    assert_eq!(lines(), [format!("WARN no token server; checks fall back reason={state}")]);

    world.open(A);
    let (_, mut peer) = world.accept().await;
    peer.greet(3).await;
    assert!(matches!(heard.connection().await, ConnectionState::Connected { .. }));
    assert_eq!(lines(), [r#"INFO connected server=10.0.0.1:18730 namespace=default clients=3"#]);
    drop(peer);
    let state = heard.connection().await.to_string();
    assert_eq!(state, "10.0.0.1:18730: closed the connection");
    assert_eq!(lines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_no_token_server_is_not_tried_hot() {
    let (client, mut world) = client(Client::builder(), &[A]);
    let web = async {
        loop {
            let (_, mut peer) = world.accept().await;
            let _gone = peer.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    };
    let minute = Duration::from_secs(60);
    assert!(tokio::time::timeout(minute, web).await.is_err());
    assert!((8..30).contains(&world.attempts().len()), "{} attempts", world.attempts().len());
    let state = client.connection().to_string();
    assert!(state.contains("is not a token server: it sent \"HTTP/1.1 400"), "{state}");
    assert_eq!(client.metrics().connections_opened, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_hangs_is_passed_over_for_the_next() {
    let (client, mut world) = client(Client::builder(), &[A, B]);
    let started = now();
    let (first, _hangs) = world.accept().await;
    let (second, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(LONG).await.unwrap();
    assert_eq!((&*first, &*second), (A, B));
    assert!(started.elapsed() <= Duration::from_millis(1_001), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_without_a_word_is_replaced_within_three_seconds() {
    let (client, mut world) = client(Client::builder(), &[A, B]);
    let (_, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(LONG).await.unwrap();
    let died = now();
    world.set(A, Port::Drops);
    let serve = async {
        let (address, peer) = world.accept().await;
        assert_eq!(address, B);
        peer.serve(1).await;
    };
    let calls = async {
        loop {
            let started = now();
            let answer = client.acquire(5, 1, false).await;
            assert!(started.elapsed() <= Duration::from_millis(21), "each within its budget");
            if answer.is_ok() {
                break died.elapsed();
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = serve => panic!("closed"),
        took = calls => assert!(took <= Duration::from_secs(3), "{took:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_every_connection_is_not_tried_hot_either() {
    let (_client, mut world) = client(Client::builder(), &[A]);
    let closes = async {
        loop {
            world.accept().await.1.greet(1).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), closes).await.is_err());
    assert!((8..30).contains(&world.attempts().len()), "{} attempts", world.attempts().len());
}

#[tokio::test(start_paused = true)]
async fn a_refused_namespace_is_said_and_calls_are_served_all_the_same() {
    let (client, mut world) = client(Client::builder().namespace("secret"), &[A]);
    let (_, mut peer) = world.accept().await;
    assert!(matches!(peer.asked().await, Some(Asked::Ping { xid: 0, .. })));
    peer.send(&[Response::PingRefused { xid: 0 }]).await;
    client.ready(LONG).await.unwrap();
    assert!(lines()[0].contains("the server refuses the namespace"));
    let serve = peer.serve(1);
    tokio::select! {
        () = serve => panic!("closed"),
        answer = client.acquire(5, 1, false) => assert_eq!(answer.unwrap().status, Status::Ok),
    }
}

#[tokio::test(start_paused = true)]
async fn further_connections_follow_the_first_and_only_that_one_pings() {
    let three = NonZeroUsize::new(3).unwrap();
    let (client, mut world) = client(Client::builder().connections(three), &[A, B]);
    let (_, mut leader) = world.accept().await;
    leader.greet(1).await;
    let mut followers = Vec::new();
    for _ in 0..2 {
        let (address, mut peer) = world.accept().await;
        assert_eq!(address, A);
        assert!(matches!(peer.asked().await, Some(Asked::Hello { .. })), "no ping");
        followers.push(peer);
    }
    // One call goes over each connection.
    let mut served = JoinSet::new();
    for peer in followers {
        served.spawn(peer.serve(1));
    }
    served.spawn(leader.serve(1));
    for id in [4, 5, 6] {
        assert_eq!(client.acquire(id.into(), 1, false).await.unwrap().remaining, id);
    }
    // The server goes; all of them move to the next one.
    world.set(A, Port::Refuses);
    served.shutdown().await;
    let (address, mut leader) = world.accept().await;
    leader.greet(1).await;
    assert_eq!(address, B);
    for _ in 0..2 {
        assert_eq!(world.accept().await.0, B);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_among_several_costs_its_own_calls_only() {
    let two = NonZeroUsize::new(2).unwrap();
    let (client, mut world) = client(Client::builder().connections(two), &[A]);
    let (_, mut leader) = world.accept().await;
    leader.greet(1).await;
    let (_, follower) = world.accept().await;
    world.set(A, Port::Refuses);
    drop(follower);
    let serve = leader.serve(1);
    let calls = async {
        sleep(Duration::from_millis(1)).await;
        for id in [4, 5, 6, 7] {
            assert_eq!(client.acquire(id.into(), 1, false).await.unwrap().remaining, id);
        }
    };
    tokio::select! { () = serve => panic!("closed"), () = calls => {} }
}

#[tokio::test(start_paused = true)]
async fn when_the_last_clone_is_dropped_every_task_ends() {
    let two = NonZeroUsize::new(2).unwrap();
    let (recorder, mut heard) = recorder();
    let builder = Client::builder().connections(two).listener(recorder);
    let (client, mut world) = client(builder, &[A]);
    let (_, mut leader) = world.accept().await;
    leader.greet(1).await;
    let (_, mut follower) = world.accept().await;
    let clone = client.clone();
    drop(client);
    assert!(matches!(follower.asked().await, Some(Asked::Hello { .. })));
    clone.ready(LONG).await.unwrap();
    drop(clone);
    assert_eq!((leader.asked().await, follower.asked().await), (None, None));
    assert!(heard.silence().await);
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_calls_nobody_and_still_answers() {
    let (client, mut world) = client(Client::builder(), &[A]);
    let (_, mut peer) = world.accept().await;
    peer.greet(1).await;
    client.ready(LONG).await.unwrap();
    let waits = client.acquire(1, 1, false);
    let (answer, ()) = tokio::join!(waits, client.close());
    assert_eq!(answer, Err(NoAnswer::Unreachable));
    assert_eq!(client.acquire(1, 1, false).await, Err(NoAnswer::Unreachable));
    assert!(matches!(client.connection(), ConnectionState::Closed));
    assert!(client.ready(LONG).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_is_never_answered_ends_after_a_second() {
    let (net, world) = network();
    world.set(A, Port::Drops);
    let (recorder, mut heard) = recorder();
    let _client = Client::builder().server(A).listener(recorder).start(net).unwrap();
    let ConnectionState::Disconnected { errors } = heard.connection().await else { panic!() };
    let server = A.parse().unwrap();
    assert_eq!(*errors, [LinkError::Connect { server, cause: "no answer in 1s".into() }]);
}

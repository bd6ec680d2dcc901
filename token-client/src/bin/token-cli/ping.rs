//! `token-cli ping`: whether a server is there, and who else is.

use anyhow::{Context, Result, bail};
use token_client::{
    Client, ConnectionState, Listener,
    limiter::{Clock, MonotonicClock},
};
use tokio::sync::mpsc;

use crate::{
    args::{Ping, Server},
    report::{Exit, say, shown},
};

pub(crate) async fn run(command: &Ping) -> Result<Exit> {
    let client = connect(&command.server).await?;
    let clock = MonotonicClock::start();
    let asked = clock.now();
    let pong = client.ping().await.context("the server greeted, and then fell silent")?;
    let took = shown(clock.now().since(asked));
    let ConnectionState::Connected { server } = client.connection() else {
        bail!("{}", client.connection());
    };
    let namespace = &command.server.namespace;
    say(&match pong.clients {
        Some(1) => format!("{server} answered in {took}: 1 client of {namespace}, this one"),
        Some(n) => {
            format!("{server} answered in {took}: {n} clients of {namespace}, with this one")
        }
        None => format!("{server} answered in {took}: it takes no clients of {namespace}"),
    })?;
    say(&match client.extension() {
        Some(extension) => format!(
            "speaks the extension, version {}, features {:#x}, rule revision {}",
            extension.version, extension.features, extension.revision
        ),
        None => "speaks plain Sentinel".into(),
    })?;
    Ok(Exit::Passed)
}

/// A client that one of the servers has answered. Gives up after one attempt with each: whoever
/// starts a server and a command together can start the command again.
pub(crate) async fn connect(server: &Server) -> Result<Client> {
    connect_with(server, Nobody).await
}

/// The same, with a listener.
pub(crate) async fn connect_with(
    server: &Server,
    listener: impl Listener + 'static,
) -> Result<Client> {
    let (told, mut first) = mpsc::channel(1);
    let client = server.client().listener(FirstState(told)).listener(listener).build()?;
    match first.recv().await {
        Some(ConnectionState::Connected { .. }) => Ok(client),
        Some(state) => bail!("{state}; {REMEDY}"),
        None => bail!("{}; {REMEDY}", client.connection()),
    }
}

const REMEDY: &str = "is token-server running there? It prints the address that it listens on: \
                      give that with --server";

/// Hears nothing.
#[derive(Debug)]
struct Nobody;

impl Listener for Nobody {}

/// Passes on how the first round of attempts ended.
#[derive(Debug)]
struct FirstState(mpsc::Sender<ConnectionState>);

impl Listener for FirstState {
    fn connection(&self, state: &ConnectionState) {
        // The second event finds no room, and nobody who waits for it.
        let _later = self.0.try_send(state.clone());
    }
}

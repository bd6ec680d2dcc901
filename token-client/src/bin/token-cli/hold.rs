//! `token-cli hold`: calls in progress, for as long as the command runs.

use anyhow::{Context, Result};
use token_client::{Listener, RuleId};
use tokio::{signal::ctrl_c, sync::mpsc};

use crate::{
    args::Hold,
    ping::connect_with,
    report::{Exit, say},
    why::in_words,
};

/// Events that nobody has looked at yet; further ones are not shown.
const EVENTS: usize = 100;

pub(crate) async fn run(command: &Hold) -> Result<Exit> {
    let (told, mut events) = mpsc::channel(EVENTS);
    let client = connect_with(&command.server, Watch(told)).await?;
    let held = match client.hold(command.flow_id, command.count).await {
        Ok(held) => held,
        Err(refused) => {
            say(&refused.to_string())?;
            return Ok(Exit::Refused);
        }
    };
    // This client knows no rules, so it has nothing to fall back to.
    if let Some(reason) = held.decided_by().fallback_reason() {
        say(&format!("no decision: {}", in_words(reason)))?;
        return Ok(Exit::NoDecision);
    }
    say("held, until this is interrupted")?;
    let mut interrupted = std::pin::pin!(ctrl_c());
    loop {
        tokio::select! {
            interrupted = &mut interrupted => {
                interrupted.context("no interrupt can be heard")?;
                break;
            }
            Some(event) = events.recv() => say(event)?,
        }
    }
    drop(held);
    // Waits until the release has arrived.
    client.close().await;
    say("released")?;
    Ok(Exit::Passed)
}

/// Passes on what becomes of the hold.
#[derive(Debug)]
struct Watch(mpsc::Sender<&'static str>);

impl Listener for Watch {
    fn lost(&self, _: RuleId, _: u32) {
        let _full = self.0.try_send("lost: the server no longer holds it; asking again");
    }

    fn regained(&self, _: RuleId, _: u32) {
        let _full = self.0.try_send("held again");
    }
}

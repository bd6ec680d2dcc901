//! `token-cli give-back`, `charge` and `reset`: corrections of what a rule has counted.

use std::time::Duration;

use anyhow::Result;
use token_client::{NoAnswer, Reason, Unadjusted};

use crate::{
    args::{GiveBack, Wanted},
    ping::connect,
    report::{Exit, say},
    why::in_words,
};

pub(crate) async fn give_back(command: &GiveBack) -> Result<Exit> {
    let (client, values) = (connect(&command.wanted.server).await?, command.wanted.values());
    let age = Duration::from_millis(command.age.into());
    report("given back", client.give_back(command.wanted.what(&values), age).await)
}

pub(crate) async fn charge(command: &Wanted) -> Result<Exit> {
    let (client, values) = (connect(&command.server).await?, command.values());
    report("charged", client.charge(command.what(&values)).await)
}

pub(crate) async fn reset(command: &Wanted) -> Result<Exit> {
    let (client, values) = (connect(&command.server).await?, command.values());
    report("reset", client.reset(command.what(&values)).await)
}

fn report(done: &str, adjusted: Result<(), Unadjusted>) -> Result<Exit> {
    let why = match adjusted {
        Ok(()) => {
            say(done)?;
            return Ok(Exit::Passed);
        }
        Err(Unadjusted::NoRule) => in_words(Reason::NoRule),
        Err(Unadjusted::NoAnswer(NoAnswer::Unsupported)) => in_words(Reason::Unsupported),
        Err(Unadjusted::NoAnswer(NoAnswer::TimedOut)) => in_words(Reason::TimedOut),
        Err(other) => other.to_string(),
    };
    say(&format!("not {done}: {why}"))?;
    Ok(Exit::NoDecision)
}

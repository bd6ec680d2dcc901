//! `token-cli acquire`: one line for each decision.

use anyhow::Result;
use token_client::{
    Answer, NoAnswer, Param, Status,
    limiter::{Clock, MonotonicClock},
};

use crate::{
    args::Acquire,
    ping::connect,
    report::{Exit, say, shown},
};

pub(crate) async fn run(command: &Acquire) -> Result<Exit> {
    let client = connect(&command.server).await?;
    let clock = MonotonicClock::start();
    let params: Vec<Param<'static>> = command.params.iter().map(|p| p.0.clone()).collect();
    let mut exit = Exit::Passed;
    for nth in 1..=command.times.get() {
        let asked = clock.now();
        let answer = if params.is_empty() {
            client.acquire(command.flow_id, command.count, command.priority).await
        } else {
            client.acquire_param(command.flow_id, command.count, &params).await
        };
        let took = shown(clock.now().since(asked));
        let (this, decision) = decision(answer);
        exit = exit.max(this);
        let place = if command.times.get() > 1 { format!("{nth}: ") } else { String::new() };
        say(&format!("{place}{decision} ({took})"))?;
        if let Ok(Answer { status: Status::ShouldWait, wait, .. }) = answer {
            tokio::time::sleep(wait).await;
        }
    }
    Ok(exit)
}

/// How a decision counts, and what it says.
fn decision(answer: Result<Answer, NoAnswer>) -> (Exit, String) {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return (Exit::NoDecision, format!("no decision: {error}")),
    };
    match answer.status {
        Status::Ok if answer.remaining < 0 => (Exit::Passed, "pass".into()),
        Status::Ok => (Exit::Passed, format!("pass, {} left", answer.remaining)),
        Status::ShouldWait => (Exit::Passed, format!("pass after {}", shown(answer.wait))),
        Status::Blocked => (Exit::Refused, "blocked".into()),
        other => (Exit::NoDecision, format!("no decision: {}", reason(other))),
    }
}

/// What a status that is no decision means, and what to do about it.
pub(crate) fn reason(status: Status) -> String {
    match status {
        Status::NoRuleExists => {
            "the server has no such rule; flow ids and hot-parameter ids are apart: is --param \
             missing, or one too many?"
                .into()
        }
        Status::TooManyRequest => {
            "the namespace is over its requests per second; raise the server's max-allowed-qps"
                .into()
        }
        Status::BadRequest => "the server does not take the request".into(),
        Status::Fail => "the server could not decide; see its log".into(),
        other => format!("status {}, which means nothing here", i8::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_answer_is_readable_and_counts_as_what_it_is() {
        let answer = |status, remaining, ms| {
            decision(Ok(Answer { status, remaining, wait: Duration::from_millis(ms) }))
        };
        assert_eq!(answer(Status::Ok, 9, 0), (Exit::Passed, "pass, 9 left".into()));
        assert_eq!(answer(Status::Ok, -1, 0), (Exit::Passed, "pass".into()));
        assert_eq!(answer(Status::ShouldWait, 0, 70), (Exit::Passed, "pass after 70.0 ms".into()));
        assert_eq!(answer(Status::Blocked, 0, 0), (Exit::Refused, "blocked".into()));
        for code in i8::MIN..=i8::MAX {
            let (exit, text) = answer(Status::from(code), 0, 0);
            let decided = matches!(code, 0..=2);
            assert_eq!(exit == Exit::NoDecision, !decided, "{text}");
        }
        let silent = decision(Err(NoAnswer::TimedOut));
        assert_eq!(silent.0, Exit::NoDecision);
    }
}

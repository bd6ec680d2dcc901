//! `token-cli why`: how a rule stands, in one line.

use anyhow::Result;
use token_client::{Reason, Status, Verdict};

use crate::{
    acquire::reason,
    args::Why,
    ping::connect,
    report::{Exit, say},
};

pub(crate) async fn run(command: &Why) -> Result<Exit> {
    let client = connect(&command.wanted.server).await?;
    let values = command.wanted.values();
    let what = command.wanted.what(&values);
    let why = if command.take {
        let why = client.check_explained(what, command.priority).await;
        // This client knows no rules, so it has nothing to fall back to.
        why.outcome.fallback_reason().map_or(Ok(why), Err)
    } else {
        client.explain(what, command.priority).await.map_err(|unexplained| unexplained.reason)
    };
    let why = match why {
        Ok(why) => why,
        Err(reason) => {
            say(&format!("no decision: {}", in_words(reason)))?;
            return Ok(Exit::NoDecision);
        }
    };
    say(&why.to_string())?;
    Ok(match why.outcome.verdict {
        Verdict::Pass | Verdict::Waited(_) => Exit::Passed,
        Verdict::Block => Exit::Refused,
    })
}

/// Why there is no decision, and what to do about it.
pub(crate) fn in_words(why: Reason) -> String {
    match why {
        Reason::NoRule => reason(Status::NoRuleExists),
        Reason::TooManyRequests => reason(Status::TooManyRequest),
        Reason::BadRequest => reason(Status::BadRequest),
        Reason::Fail => reason(Status::Fail),
        Reason::TimedOut => "the server did not answer in time; see --timeout".into(),
        Reason::Unsupported => {
            "the server does not know the request: Sentinel's never does, and an older version of \
             ours may not"
                .into()
        }
        other => other.to_string(),
    }
}

//! Decisions with their reasons, and with a bound on the wait that the server keeps to.

use std::time::Duration;

use bytes::BytesMut;
use protocol::{ANY_WAIT, Request, Status, feature, kind};
use tokio::task::coop::consume_budget;

use crate::{
    Client, NoAnswer, Outcome, Unexplained, What, Why,
    client::Backend,
    outcome::Ruling,
    told::{Manner, Told},
};

impl Client {
    /// Says what a check would come to now and why, and takes nothing. The client's `max_wait`
    /// counts as in the check.
    ///
    /// # Errors
    ///
    /// [`Unexplained`] when no server says: there is none, it has no such request
    /// ([`Unsupported`](crate::Reason::Unsupported); Sentinel's has not) or no such rule. The rule's
    /// fallback would decide a check then.
    pub async fn explain(&self, what: What<'_>, priority: bool) -> Result<Why, Unexplained> {
        let told = self.ask(&what, self.manner(priority, true)).await;
        let ruling = Ruling::waiting(told.as_ref().map(|told| told.answer).map_err(|e| *e));
        match self.inner.decider.foresee(ruling) {
            Ok(outcome) => Ok(self.why(&what, outcome, told.ok())),
            Err(reason) => {
                let (policy, resource) = self.inner.decider.policy(what.rule(), reason);
                Err(Unexplained { rule: what.rule(), resource, reason, policy })
            }
        }
    }

    /// As [`check`](Self::check) or [`check_param`](Self::check_param), and says why. A server that
    /// cannot say is asked without: the reasons then lack the rule's [`usage`](Why::usage).
    pub async fn check_explained(&self, what: What<'_>, priority: bool) -> Why {
        if let What::Flow { id, count } = what
            && let Some(outcome) = self.spend(id, count, priority).await
        {
            return self.why(&what, outcome, None);
        }
        let (told, ruling) = match self.ask_for_tokens(&what, priority).await {
            Some(told) => {
                let answer = told.as_ref().map(|told| told.answer).map_err(|e| *e);
                (told, Ruling::waiting(answer))
            }
            None => {
                let (answer, ruling) = self.acquire_plain(&what, priority).await;
                (answer.map(Told::from), ruling)
            }
        };
        let outcome = self.decide(&what, priority, ruling).await;
        self.why(&what, outcome, told.ok())
    }

    /// Takes tokens, with their reasons. `None` where only a plain request gets any: from a server
    /// without the extension, and of a thread-grade rule, whose tokens have an owner here.
    pub(crate) async fn ask_for_tokens(
        &self,
        what: &What<'_>,
        priority: bool,
    ) -> Option<Result<Told, NoAnswer>> {
        match self.ask(what, self.manner(priority, false)).await {
            Err(NoAnswer::Unsupported) => None,
            Ok(told) if told.answer.status == Status::BadRequest => None,
            told => Some(told),
        }
    }

    pub(crate) fn manner(&self, priority: bool, peek: bool) -> Manner {
        Manner { priority, peek, max_wait: self.inner.decider.max_wait }
    }

    /// Asks for tokens over the extension, or the engine.
    async fn ask(&self, what: &What<'_>, manner: Manner) -> Result<Told, NoAnswer> {
        consume_budget().await;
        let count = what.check()?;
        let remote = match &self.inner.backend {
            Backend::Remote(remote) => remote,
            Backend::Embedded(embedded) => return Ok(embedded.ask(what, count, manner)),
        };
        let Manner { priority, peek, max_wait } = manner;
        // Cut, so that no wait over the client's most is granted.
        let cut = |wait: Duration| u32::try_from(wait.as_millis()).unwrap_or(ANY_WAIT);
        let max_wait_ms = max_wait.map_or(ANY_WAIT, |wait| cut(wait).min(ANY_WAIT - 1));
        let encode = |xid, out: &mut BytesMut| {
            let mut buf = BytesMut::new();
            let what = what.on_wire(count, &mut buf)?;
            Request::Ask { xid, priority, peek, max_wait_ms, what }.encode(out)
        };
        Ok(remote.call(kind::ASK, feature::ASK, encode).await?.into())
    }

    fn why(&self, what: &What<'_>, outcome: Outcome, told: Option<Told>) -> Why {
        let (usage, mut resource) =
            told.map_or_else(Default::default, |told| (told.usage, told.resource));
        if resource.is_empty() {
            resource = self.inner.decider.rules.load().resource(what.rule()).into();
        }
        Why { rule: what.rule(), resource, outcome, usage }
    }
}

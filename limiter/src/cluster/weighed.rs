//! What was found out about a request, before anything is taken for it.

use crate::{algorithm::Verdict, rule::Mode};

/// What a rule says, and the mode that it was asked in: read once, however long it takes until what
/// follows from it is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weighed {
    pub(super) mode: Mode,
    /// The rule's own; of a mode that does not ask it, the mode's.
    pub(super) verdict: Verdict,
}

impl Weighed {
    /// What the one who asks is told: in shadow nobody is refused, and nobody waits.
    pub(super) fn answer(self) -> Verdict {
        match (self.mode, self.verdict) {
            (Mode::Shadow, Verdict::Block { .. } | Verdict::Wait { .. }) => {
                Verdict::Pass { remaining: 0 }
            }
            (_, verdict) => verdict,
        }
    }

    /// Whether the rule refused, and only the shadow lets it pass.
    pub(super) fn is_shadowed(self) -> bool {
        self.mode == Mode::Shadow && !self.verdict.is_admitted()
    }

    /// Whether the rule was asked, and said yes: then something is to be taken.
    pub(super) fn takes(self) -> bool {
        matches!(self.mode, Mode::Enforce | Mode::Shadow) && self.verdict.is_admitted()
    }
}

//! From one rule set to the next: what stays, what goes on with another's counter, what leaves.

use super::{
    Applied, Flow, Namespace, ParamFlow, RuleSet, Settings,
    counting::Counting,
    departed::Departed,
    digest,
    flow::Calls,
    namespace::Namespaces,
    recipe::{Recipe, Recipes},
    values::Room,
};
use crate::{
    Concurrency,
    rule::{
        ClusterConfig, ControlBehavior, Finding, FlowRule, Grade, NamespaceRules, ParamRule,
        RuleErrors, duplicate_ids,
    },
    sync::Arc,
};

/// What of an engine its rules stand on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) tokens: &'a Arc<Concurrency>,
    pub(crate) room: &'a Room,
}

impl RuleSet {
    /// The set that follows `self`. What was used goes on where it means the same, in `departed`,
    /// too; what is not in the new set departs.
    ///
    /// # Errors
    ///
    /// Every rule that cannot be in force beside the others; `self` stays what it is.
    pub(crate) fn successor(
        &self,
        rules: Vec<NamespaceRules>,
        ground: Ground<'_>,
        departed: &mut Departed,
    ) -> Result<Self, RuleErrors> {
        fits(&rules, ground.settings.rules_max)?;
        let hash = digest::of(&rules);
        let mut next = Self::default();
        next.flows.reserve(rules.iter().map(|set| set.flow.len()).sum());
        next.params.reserve(rules.iter().map(|set| set.param.len()).sum());
        let recipes = &mut Recipes::default();
        for set in rules {
            let namespace = &ground.namespaces.of_rules(&set.namespace);
            for mut rule in set.flow {
                if let Some(config) = rule.cluster.clone() {
                    if ground.settings.ignore_control_behavior {
                        rule.behavior = ControlBehavior::Reject;
                    }
                    let id = config.flow_id;
                    let flow =
                        self.next_flow(rule, &config, namespace, (ground, recipes), departed);
                    if flow.keeps_log() {
                        next.logs.push(Arc::clone(&flow));
                    }
                    next.flows.insert(id, flow);
                }
            }
            for mut rule in set.param {
                if let Some(config) = rule.cluster.clone() {
                    if ground.settings.ignore_control_behavior {
                        rule.behavior = ControlBehavior::Reject;
                    }
                    let id = config.flow_id;
                    let param =
                        self.next_param(rule, &config, namespace, (ground, recipes), departed);
                    next.params.insert(id, param);
                }
            }
        }
        let most = ground.settings.rules_max;
        for (id, flow) in self.flows.iter().filter(|(id, _)| !next.flows.contains_key(id)) {
            departed.flow_left(*id, flow, most);
        }
        for (id, param) in self.params.iter().filter(|(id, _)| !next.params.contains_key(id)) {
            departed.param_left(*id, param, most);
        }
        let changed = self.applied.revision == 0 || hash != self.applied.hash;
        next.applied = Applied {
            revision: self.applied.revision + u64::from(changed),
            hash,
            flows: next.flows.len(),
            params: next.params.len(),
        };
        Ok(next)
    }

    fn next_flow(
        &self,
        rule: FlowRule,
        config: &ClusterConfig,
        namespace: &Arc<Namespace>,
        (ground, recipes): (Ground<'_>, &mut Recipes),
        departed: &mut Departed,
    ) -> Arc<Flow> {
        let old = self.flows.get(&config.flow_id);
        if let Some(old) = old
            && *old.rule() == rule
            && Arc::ptr_eq(old.guard(), namespace)
        {
            return Arc::clone(old);
        }
        let counting = Counting::of(config, rule.behavior);
        let mut inherited = match old {
            Some(old) => old.bequeath(&counting),
            None => departed.flow_back(config.flow_id, &counting),
        };
        let tenant = namespace.tenant();
        if let Some(calls) = &inherited.calls {
            calls.move_to(tenant);
        } else if rule.grade == Grade::Thread {
            inherited.calls = Some(Arc::new(Calls::new(ground.tokens, tenant)));
        }
        let recipe = Recipe::of_flow(&rule, config, namespace.exceed_count());
        let recipe = recipe.map(|recipe| recipes.shared(recipe));
        let flow = Flow::new(rule, config, Arc::clone(namespace), recipe, inherited);
        if let Some((saved, restart)) = departed.saved_flow(config.flow_id) {
            flow.restore(&saved.0, restart);
        }
        Arc::new(flow)
    }

    fn next_param(
        &self,
        rule: ParamRule,
        config: &ClusterConfig,
        namespace: &Arc<Namespace>,
        (ground, recipes): (Ground<'_>, &mut Recipes),
        departed: &mut Departed,
    ) -> Arc<ParamFlow> {
        let old = self.params.get(&config.flow_id);
        if let Some(old) = old
            && *old.rule() == rule
            && Arc::ptr_eq(old.guard(), namespace)
        {
            return Arc::clone(old);
        }
        let counting = Counting::of(config, Recipe::behavior_of_param(&rule));
        let counter = match old {
            Some(old) => (old.counting() == counting).then(|| old.counter()),
            None => departed.param_back(config.flow_id, &counting),
        };
        let (room, namespace) = (ground.room.clone(), Arc::clone(namespace));
        let counter = counter.unwrap_or_default();
        let recipe = Recipe::of_param(&rule, config).map(|recipe| recipes.shared(recipe));
        let param = ParamFlow::new(rule, config, room, namespace, recipe, counter);
        if let Some((saved, restart)) = departed.saved_param(config.flow_id) {
            param.restore(&saved, restart);
        }
        Arc::new(param)
    }
}

/// Whether the rules may be in force together: not too many, and no id twice.
fn fits(rules: &[NamespaceRules], max: usize) -> Result<(), RuleErrors> {
    let id = |config: &Option<ClusterConfig>| config.as_ref().map(|config| config.flow_id);
    let flows = |set: &NamespaceRules| set.flow.iter().filter_map(|r| id(&r.cluster)).collect();
    let params = |set: &NamespaceRules| set.param.iter().filter_map(|r| id(&r.cluster)).collect();
    let mut errors = duplicates(rules, flows);
    errors.extend(duplicates(rules, params));
    let count: usize = rules.iter().map(|set| set.flow.len() + set.param.len()).sum();
    if count > max {
        errors
            .push(Finding::of_set("rules", &format!("{count} rules, of which {max} are allowed")));
    }
    if errors.is_empty() { Ok(()) } else { Err(RuleErrors(errors)) }
}

fn duplicates(rules: &[NamespaceRules], ids: impl Fn(&NamespaceRules) -> Vec<i64>) -> Vec<Finding> {
    let ids = rules.iter().flat_map(|set| ids(set).into_iter().map(|id| (id, &*set.namespace)));
    let name = |namespace: &&str| format!("namespace {namespace}");
    duplicate_ids(ids, name, Finding::of_set)
}

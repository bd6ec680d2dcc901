//! The rules of a case.

use limiter::{
    local::LocalEngine,
    rule::{
        AuthorityRule, Contents, DegradeRule, FlowRule, ParamRule, RuleErrors, RuleList,
        SystemRule, parse, parse_authority, parse_degrade, parse_system,
    },
};

use super::line::Line;

/// What messages would call a line.
const SOURCE: &str = "scenario";

/// The rules that were given since the case began. Those that are not valid are left out, as
/// Sentinel does, while a text of several is refused whole; here each line is a text.
#[derive(Default)]
pub(super) struct Rules {
    flow: Vec<FlowRule>,
    param: Vec<ParamRule>,
    degrade: Vec<DegradeRule>,
    default_degrade: Vec<DegradeRule>,
    system: Vec<SystemRule>,
    authority: Vec<AuthorityRule>,
}

const FLOW: &[(&str, &str)] = &[
    ("resource", "resource"),
    ("count", "count"),
    ("grade", "grade"),
    ("strategy", "strategy"),
    ("ref", "refResource"),
    ("cb", "controlBehavior"),
    ("warm", "warmUpPeriodSec"),
    ("mq", "maxQueueingTimeMs"),
    ("limitApp", "limitApp"),
    ("regex", "regex"),
    ("cluster", "flowId"),
    ("fb", "fallbackToLocalWhenFail"),
];
const PARAM: &[(&str, &str)] = &[
    ("resource", "resource"),
    ("idx", "paramIdx"),
    ("count", "count"),
    ("grade", "grade"),
    ("cb", "controlBehavior"),
    ("mq", "maxQueueingTimeMs"),
    ("burst", "burstCount"),
    ("dur", "durationInSec"),
    ("items", "paramFlowItemList"),
];
const DEGRADE: &[(&str, &str)] = &[
    ("resource", "resource"),
    ("grade", "grade"),
    ("count", "count"),
    ("tw", "timeWindow"),
    ("min", "minRequestAmount"),
    ("ratio", "slowRatioThreshold"),
    ("stat", "statIntervalMs"),
];
const SYSTEM: &[(&str, &str)] = &[
    ("load", "highestSystemLoad"),
    ("cpu", "highestCpuUsage"),
    ("qps", "qps"),
    ("rt", "avgRt"),
    ("thread", "maxThread"),
];
const AUTHORITY: &[(&str, &str)] =
    &[("resource", "resource"), ("limitApp", "limitApp"), ("strategy", "strategy")];

impl Rules {
    pub(super) fn add(&mut self, line: &Line<'_>) -> Result<(), String> {
        match line.word {
            "flow" => {
                let parsed = parse(&line.json(FLOW)?, SOURCE, "", Contents::Flow, false);
                self.flow.extend(parsed.into_iter().flat_map(|parsed| parsed.rules.flow));
            }
            "param" => {
                let parsed = parse(&line.json(PARAM)?, SOURCE, "", Contents::Param, false);
                self.param.extend(parsed.into_iter().flat_map(|parsed| parsed.rules.param));
            }
            "degrade" => self.degrade.extend(valid(parse_degrade(&line.json(DEGRADE)?, SOURCE))),
            "defdegrade" => {
                let text = line.json(DEGRADE)?.replacen('{', r#"{"resource": "*","#, 1);
                self.default_degrade.extend(valid(parse_degrade(&text, SOURCE)));
            }
            "system" => self.system.extend(valid(parse_system(&line.json(SYSTEM)?, SOURCE))),
            "authority" => {
                self.authority.extend(valid(parse_authority(&line.json(AUTHORITY)?, SOURCE)));
            }
            _ => return Err("unknown word".into()),
        }
        Ok(())
    }

    /// Loads them, and says how many are in force.
    pub(super) fn load(&self, engine: &LocalEngine) -> String {
        let flow = engine.load_flow(self.flow.clone()).rules;
        let degrade = engine.load_degrade(self.degrade.clone()).rules;
        engine.load_default_degrade(self.default_degrade.clone(), &[]);
        let param = engine.load_param(self.param.clone()).rules;
        let system = engine.load_system(&self.system).rules;
        let authority = engine.load_authority(self.authority.clone()).rules;
        format!(
            "load ok flow={flow} degrade={degrade} param={param} system={system} \
             authority={authority}"
        )
    }

    /// The arguments that hot-parameter rules look at. Calls never change them.
    pub(super) fn indices(&self) -> String {
        let indices = self.param.iter().map(|rule| format!(" {}", rule.param_idx));
        format!("idx{}", indices.collect::<String>())
    }
}

fn valid<T>(list: Result<RuleList<T>, RuleErrors>) -> Vec<T> {
    list.map(|list| list.rules).unwrap_or_default()
}

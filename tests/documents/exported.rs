//! The metrics that exist: read from the pages of a server, a client and a local engine that have
//! something to show in every family.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use limiter::{
    local::LocalSettings,
    rule::{Contents, parse, parse_degrade},
};
use prometheus_client::{encoding::prometheus_text, registry::Registry};
use regex::Regex;
use support::{eventually, flow_rule, param_rule, server};
use token_client::{Client, Engine};
use tokio::runtime;

use super::root;

/// A family of series.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// As Prometheus calls it: `counter` or `gauge`.
    pub(super) kind: String,
    /// The values that were seen of each label.
    pub(super) labels: BTreeMap<String, BTreeSet<String>>,
    series: usize,
}

/// All families, by the names of their series.
pub(super) type Families = BTreeMap<String, Family>;

/// What is exported. Whatever has metrics gives a page here: a new registry is one more line.
pub(super) fn exported() -> &'static Families {
    static FAMILIES: OnceLock<Families> = OnceLock::new();
    FAMILIES.get_or_init(|| {
        let runtime = runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let scene = Scene::start(&runtime);
        let registered = |register: &dyn Fn(&mut Registry)| {
            let (mut registry, mut page) = (Registry::default(), String::new());
            register(&mut registry);
            prometheus_text::encode(&mut page, &registry).unwrap();
            page
        };
        let pages = [
            scene.server.get("/metrics").1,
            registered(&|to| scene.engine.client().unwrap().register_metrics(to)),
            registered(&|to| scene.engine.register_metrics(to)),
        ];
        let mut families = Families::new();
        pages.iter().for_each(|page| read_page(page, &mut families));
        families
    })
}

/// A server with a rule of each kind, a snapshot and a switch, and a service that asks it.
struct Scene {
    server: support::Process,
    engine: Engine,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn start(runtime: &runtime::Runtime) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let in_progress = flow_rule(2, 10.0, "").replacen('{', r#"{"grade": 0, "#, 1);
        let rules = [flow_rule(1, 10.0, ""), in_progress, param_rule(3, 10.0, "")];
        let text = format!("[{}]", rules.join(","));
        fs::write(path("rules.json"), &text).unwrap();
        let config =
            "snapshot_interval = 1\nnamespace_modes = [\"default=shadow\", \"n=enforce\"]\n";
        fs::write(path("server.toml"), config).unwrap();
        let (config, rules) = (path("server.toml"), path("rules.json"));
        let snapshot = path("counters");
        let server = server(&["--config", &config, "--rules", &rules, "--snapshot", &snapshot]);

        let engine = Engine::new(LocalSettings::default());
        let breaker = r#"[{"resource": "flow-1", "grade": 1, "count": 0.5, "timeWindow": 1}]"#;
        engine.local().load_degrade(parse_degrade(breaker, "breaker").unwrap().rules);
        let parsed = parse(&text, "rules", "default", Contents::Mixed, true).unwrap().rules;
        engine.local().load_flow(parsed.flow);
        engine.local().load_param(parsed.param);
        let client = Client::builder().server(&server.token.unwrap().to_string()).build().unwrap();
        runtime.block_on(client.ready(Duration::from_secs(20))).unwrap();
        engine.connect(client);
        let shows = |series: &str| server.metric(series).is_some();
        eventually("the client tells its rules", || shows("tollgate_client_rules{"));
        eventually("a snapshot is written", || shows("tollgate_snapshot_last_bytes "));
        drop(runtime.block_on(engine.entry("flow-1").inbound().acquire()));
        Self { server, engine, _folder: folder }
    }
}

fn read_page(page: &str, families: &mut Families) {
    let label = Regex::new(r#"(\w+)="([^"]*)""#).unwrap();
    for line in page.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            let is_new =
                families.insert(name.into(), Family { kind: kind.into(), ..Family::default() });
            assert!(is_new.is_none(), "{name} stands twice");
        } else if !line.starts_with('#') && !line.is_empty() {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(families.contains_key(name), "{line} has no type");
            let family = families.get_mut(name).unwrap();
            family.series += 1;
            for found in label.captures_iter(line) {
                let values = family.labels.entry(found[1].into()).or_default();
                values.insert(found[2].into());
            }
        }
    }
}

/// Everything in a text that looks like a metric's name, with what follows.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("tollgate_").map(|(at, _)| {
        let rest = &text[at..];
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()))
    })
}

/// All Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_family_shows_its_labels_and_is_ours() {
    let families = exported().iter();
    let odd =
        families.filter(|(name, family)| family.series == 0 || !name.starts_with("tollgate_"));
    let odd: Vec<_> = odd.collect();
    assert!(odd.is_empty(), "{odd:#?}");
    assert!(exported().len() > 70, "{:?}", exported().keys());
}

#[test]
fn the_sources_name_no_metric_that_is_on_no_page() {
    let mut files = Vec::new();
    for member in fs::read_dir(root()).unwrap() {
        let folder = member.unwrap().path().join("src");
        if folder.is_dir() {
            sources(&folder, &mut files);
        }
    }
    let mut unknown = BTreeSet::new();
    let mut known = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (name, _) in names_in(&text) {
            // A name that goes on by a format; a counter or an information without its ending.
            let is_known = (name.ends_with('_')
                && exported().keys().any(|family| family.starts_with(name)))
                || ["", "_total", "_info"]
                    .iter()
                    .any(|end| exported().contains_key(&format!("{name}{end}")));
            known += usize::from(is_known);
            if !is_known {
                unknown.insert((name.to_owned(), file.clone()));
            }
        }
    }
    assert!(known > 50, "{known}");
    assert!(unknown.is_empty(), "no page of `exported` shows {unknown:#?}");
}

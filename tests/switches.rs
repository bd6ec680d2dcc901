//! The operator's switches, thrown while the server runs: SIGHUP, and the next decision obeys.

use std::fs;

use support::{Process, Wire, eventually, flow_rule, server, status::*, token_server};

/// A server with two namespaces, each with one flow of which nothing passes.
struct Scene {
    folder: tempfile::TempDir,
    server: Process,
    wire: Wire,
    reloads: usize,
}

const ORDERS: u64 = 1;
const SEARCH: u64 = 2;

impl Scene {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (namespace, id) in [("orders", ORDERS), ("search", SEARCH)] {
            let path = folder.path().join(format!("{namespace}-flow-rules.json"));
            fs::write(path, format!("[{}]", flow_rule(id.cast_signed(), 0.0, ""))).unwrap();
        }
        let config = folder.path().join("server.toml");
        fs::write(&config, "").unwrap();
        let (rules, config) = (folder.path().to_str().unwrap(), config.to_str().unwrap());
        let server = server(&[&["--rules", rules, "--config", config], flags].concat());
        let wire = Wire::connect(server.token.unwrap());
        Self { folder, server, wire, reloads: 0 }
    }

    /// Puts a configuration in force, and waits until it is.
    fn reload(&mut self, config: &str) {
        // Whole at once: the reload before may still be reading.
        let next = self.folder.path().join("server.toml.next");
        fs::write(&next, config).unwrap();
        fs::rename(next, self.folder.path().join("server.toml")).unwrap();
        self.server.signal("HUP");
        self.reloads += 1;
        let reloaded = || self.server.log().matches("reloading").count();
        eventually("a reload", || reloaded() == self.reloads);
        // The rules are read, then the configuration: the second reload begins when the first is
        // over.
        self.server.signal("HUP");
        self.reloads += 1;
        eventually("the next reload", || reloaded() == self.reloads);
    }

    /// What comes of a request to each namespace.
    fn statuses(&mut self) -> [i8; 2] {
        [self.wire.status(ORDERS), self.wire.status(SEARCH)]
    }

    fn metric(&self, series: &str) -> Option<f64> {
        self.server.metric(&format!("tollgate_{series}"))
    }
}

#[test]
fn the_whole_server_is_switched_by_sighup_and_back() {
    let mut scene = Scene::start(&[]);
    assert_eq!(scene.statuses(), [BLOCKED; 2]);
    assert_eq!(scene.metric("mode{mode=\"enforce\"}"), Some(1.0));
    for (mode, answers) in [
        ("shadow", [OK; 2]),
        ("pass", [OK; 2]),
        ("block", [BLOCKED; 2]),
        ("shadow", [OK; 2]),
        ("enforce", [BLOCKED; 2]),
    ] {
        scene.reload(&format!("mode = \"{mode}\""));
        assert_eq!(scene.statuses(), answers, "{mode}");
        assert_eq!(scene.metric(&format!("mode{{mode=\"{mode}\"}}")), Some(1.0));
        assert_eq!(scene.server.log().contains(&format!("server={mode}")), mode != "enforce");
    }
    scene.server.has_logged("all rules are enforced");
    assert!(!scene.server.log().contains("need a restart"), "{}", scene.server.log());
}

#[test]
fn what_block_refuses_is_refused_whatever_the_rule_allows() {
    let mut scene = Scene::start(&[]);
    let rules = scene.folder.path().join("orders-flow-rules.json");
    fs::write(rules, format!("[{}]", flow_rule(1, 1e6, ""))).unwrap();
    scene.reload("");
    assert_eq!(scene.statuses(), [OK, BLOCKED]);
    scene.reload("mode = \"block\"");
    assert_eq!(scene.statuses(), [BLOCKED; 2]);
    scene.reload("");
    assert_eq!(scene.statuses(), [OK, BLOCKED]);
}

#[test]
fn a_namespace_is_switched_alone_and_the_whole_server_goes_first() {
    let mut scene = Scene::start(&[]);
    scene.reload("namespace_modes = [\"orders=pass\"]");
    assert_eq!(scene.statuses(), [OK, BLOCKED]);
    let series = "namespace_mode{namespace=\"orders\",mode=\"pass\"}";
    assert_eq!(scene.metric(series), Some(1.0));
    scene.reload("namespace_modes = [\"orders=pass\"]\nmode = \"block\"");
    assert_eq!(scene.statuses(), [BLOCKED; 2]);
    scene.reload("namespace_modes = [\"search=shadow\"]");
    assert_eq!(scene.statuses(), [BLOCKED, OK]);
    scene.reload("");
    assert_eq!(scene.statuses(), [BLOCKED; 2]);
    assert_eq!(scene.metric(series), None);
}

#[test]
fn the_request_limit_of_one_namespace_is_switched_alone() {
    let mut scene = Scene::start(&["--max-allowed-qps", "0"]);
    assert_eq!(scene.statuses(), [TOO_MANY_REQUEST; 2]);
    scene.reload("namespace_max_allowed_qps = [\"orders=off\"]");
    assert_eq!(scene.statuses(), [BLOCKED, TOO_MANY_REQUEST]);
    scene.reload("namespace_max_allowed_qps = [\"orders=0\", \"search=1000000\"]");
    assert_eq!(scene.statuses(), [TOO_MANY_REQUEST, BLOCKED]);
    scene.reload("");
    assert_eq!(scene.statuses(), [TOO_MANY_REQUEST; 2]);
}

#[test]
fn a_mistaken_configuration_leaves_the_switches_as_they_are() {
    let mut scene = Scene::start(&[]);
    scene.reload("mode = \"pass\"");
    assert_eq!(scene.statuses(), [OK; 2]);
    scene.reload("mode = \"blok\"");
    scene.server.has_logged("mode = blok");
    assert_eq!(scene.statuses(), [OK; 2]);
}

#[test]
fn a_server_that_is_started_with_a_mode_says_so_and_the_flag_outlives_a_reload() {
    let mut scene = Scene::start(&["--mode", "shadow"]);
    scene.server.has_logged("server=shadow");
    assert_eq!(scene.statuses(), [OK; 2]);
    scene.reload("mode = \"block\"");
    assert_eq!(scene.statuses(), [OK; 2], "flags win");
    let output = token_server().args(["--mode", "off"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--mode off: enforce, shadow, pass or block"), "{said}");
}

//! The switch that makes `controlBehavior` mean as little as it does to Sentinel's server.

use limiter::{
    ClusterEngine, Decision, Settings, Tick,
    rule::{Contents, merge, parse},
};

#[test]
fn with_the_switch_nobody_is_paced_or_warms_up() {
    for behavior in 1..=3 {
        let text = format!(
            r#"[{{"resource":"f","count":3,"controlBehavior":{behavior},"clusterMode":true,
                "clusterConfig":{{"flowId":1,"thresholdType":1}}}}]"#
        );
        let decisions = |ignore_control_behavior| {
            let engine =
                ClusterEngine::new(Settings { ignore_control_behavior, ..Settings::default() });
            let rules = parse(&text, "test", "ns", Contents::Mixed, true).unwrap();
            engine.replace(merge(vec![rules]).unwrap()).unwrap();
            let rules = engine.snapshot();
            [(); 4].map(|()| {
                rules.acquire_flow(Tick::from_ms(1_700_000_000_000), 1, 1, false).unwrap()
            })
        };
        let plain = [2, 1, 0].map(|remaining| Decision::Pass { remaining });
        assert_eq!(decisions(true)[..3], plain, "controlBehavior {behavior}");
        assert_eq!(decisions(true)[3], Decision::Block);
        assert_ne!(decisions(false)[..3], plain, "controlBehavior {behavior}");
    }
}

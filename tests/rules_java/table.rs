//! The texts that are compared.

/// A text, and why we do not take it as Sentinel does, if we do not.
pub(super) type Case = (&'static str, Option<&'static str>);

const NO_JSON: Option<&str> = Some("a rule file is JSON, and nothing beside it");
const BOUND: Option<&str> = Some("beyond what is counted exactly, or held in memory");
const RANGE: Option<&str> = Some("a number that its type cannot hold is a mistake");
const LENIENT: Option<&str> = Some("a number in text is read wherever it is one");
const UNUSED: Option<&str> = Some("what is not used stays at its default");
const NO_TEXT: Option<&str> = Some("a list, an object or half a character is no text");
const ITEM: Option<&str> = Some("a bad item is dropped, whatever is bad about it");

pub(super) const FLOW: &[Case] = &[
    (r#"{"resource":"r"}"#, None),
    (
        r#"{"id":7,"resource":"r","limitApp":"shop","grade":1,"count":100.0,"strategy":2,
            "refResource":"s","controlBehavior":3,"warmUpPeriodSec":5,"maxQueueingTimeMs":9,
            "clusterMode":true,"regex":false,"clusterConfig":{"flowId":101,"thresholdType":1,
            "fallbackToLocalWhenFail":false,"strategy":0,"sampleCount":5,"windowIntervalMs":500}}"#,
        None,
    ),
    (
        r#"{"resource":"r","grade":0,"clusterMode":true,"strategy":1,"controlBehavior":2,
            "maxQueueingTimeMs":0,"clusterConfig":{"flowId":1,"strategy":1,"resourceTimeout":30,
            "clientOfflineTime":"4,000"}}"#,
        None,
    ),
    // Forms of numbers.
    (r#"{"resource":"r","count":"1,000.5","warmUpPeriodSec":"2,0","maxQueueingTimeMs":9.9}"#, None),
    (r#"{"resource":"r","count":" 5.5 "}"#, None),
    (r#"{"resource":"r","count":true,"grade":false}"#, None),
    (r#"{"resource":"r","count":5e2,"grade":0.9}"#, None),
    (r#"{"resource":"r","count":"","grade":"null","strategy":"NULL","limitApp":null}"#, None),
    (r#"{"resource":"r","count":"many"}"#, None),
    (r#"{"resource":"r","grade":"x"}"#, None),
    (r#"{"resource":"r","grade":3000000000}"#, None),
    (r#"{"resource":"r","grade":" 0 "}"#, LENIENT),
    (r#"{"resource":"r","grade":"0e1"}"#, LENIENT),
    (r#"{"resource":"r","maxQueueingTimeMs":1e10}"#, RANGE),
    (
        r#"{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":99999999999999999999}}"#,
        RANGE,
    ),
    // Forms of booleans.
    (r#"{"resource":"r","clusterMode":"T","clusterConfig":{"flowId":1}}"#, None),
    (r#"{"resource":"r","clusterMode":"y","clusterConfig":{"flowId":1}}"#, None),
    (r#"{"resource":"r","clusterMode":1.5,"clusterConfig":{"flowId":1}}"#, None),
    (r#"{"resource":"r","clusterMode":2,"clusterConfig":{"flowId":1}}"#, None),
    (r#"{"resource":"r","clusterMode":"F","regex":"N"}"#, None),
    (r#"{"resource":"r","clusterMode":"yes"}"#, None),
    (r#"{"resource":"r","clusterMode":" "}"#, None),
    (r#"{"resource":"r","clusterMode":"n"}"#, LENIENT),
    // Forms of text.
    (r#"{"resource":5.50,"limitApp":true}"#, None),
    (r#"{"resource":"null","limitApp":" ","refResource":""}"#, None),
    (r#"{"resource":"\u8ba2\ud83d\ude00\n"}"#, None),
    (r#"{"resource":1e2}"#, Some("a number as text is what is written")),
    (r#"{"resource":["r"]}"#, NO_TEXT),
    (r#"{"resource":"\ud800"}"#, NO_TEXT),
    // Names.
    (
        r#"{"RESOURCE":"r","co-unt":7,"is_cluster_mode":true,"Cluster_Config":{"flow_id":"7",
            "THRESHOLD-TYPE":1,"isFallbackToLocalWhenFail":false}}"#,
        None,
    ),
    (r#"{"resource":"r","IsClusterMode":true,"isCount":5,"co unt":6}"#, None),
    (r#"{"resource":"r","count":1,"Count":2,"strategy":null,"strategy":1}"#, None),
    (r#"{"resource":"r","x":1e400,"y":"\ud800","z":{"count":[1,{"resource":null}]}}"#, None),
    // What is valid, and what is not.
    (r#"null"#, None),
    (r#"{}"#, None),
    (r#"7"#, None),
    (r#"{"resource":" \t"}"#, None),
    (r#"{"resource":"r","count":-0.1}"#, None),
    (r#"{"resource":"r","count":"NaN"}"#, None),
    (r#"{"resource":"r","grade":2}"#, None),
    (r#"{"resource":"r","strategy":1}"#, None),
    (r#"{"resource":"r","strategy":3,"controlBehavior":7}"#, None),
    (r#"{"resource":"r","strategy":-1}"#, None),
    (r#"{"resource":"r","controlBehavior":-1}"#, None),
    (r#"{"resource":"r","controlBehavior":1,"warmUpPeriodSec":0}"#, None),
    (r#"{"resource":"r","controlBehavior":2,"maxQueueingTimeMs":0}"#, None),
    (r#"{"resource":"r","controlBehavior":3,"maxQueueingTimeMs":-1}"#, None),
    (
        r#"{"resource":"r","controlBehavior":1,"count":0.5,"clusterMode":true,
            "clusterConfig":{"flowId":1,"windowIntervalMs":60000}}"#,
        None,
    ),
    (
        r#"{"resource":"r","controlBehavior":2,"count":0.5,"clusterMode":true,
            "clusterConfig":{"flowId":1,"sampleCount":1}}"#,
        None,
    ),
    (
        r#"{"resource":"r","controlBehavior":2,"count":1e-40,"clusterMode":true,
            "clusterConfig":{"flowId":1}}"#,
        BOUND,
    ),
    (
        r#"{"resource":"r","controlBehavior":3,"count":1e15,"warmUpPeriodSec":10,
            "clusterMode":true,"clusterConfig":{"flowId":1}}"#,
        BOUND,
    ),
    (
        r#"{"resource":"r","controlBehavior":1,"warmUpPeriodSec":31622401,"clusterMode":true,
            "clusterConfig":{"flowId":1}}"#,
        BOUND,
    ),
    (r#"{"resource":"r","warmUpPeriodSec":-1,"maxQueueingTimeMs":-1}"#, UNUSED),
    (r#"{"resource":"r","regex":true}"#, None),
    (r#"{"resource":"r","regex":true,"controlBehavior":7}"#, None),
    (r#"{"resource":"r","regex":true,"clusterMode":true,"clusterConfig":{"flowId":1}}"#, None),
    (r#"{"resource":"r","clusterMode":true}"#, None),
    (r#"{"resource":"r","clusterMode":true,"clusterConfig":7}"#, None),
    (r#"{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":0}}"#, None),
    (r#"{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":"null"}}"#, None),
    (r#"{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1,"thresholdType":7}}"#, None),
    (r#"{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1,"sampleCount":3}}"#, None),
    (r#"{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1,"sampleCount":0}}"#, None),
    (r#"{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1,"strategy":1}}"#, None),
    (
        r#"{"resource":"r","clusterMode":true,"clusterConfig":{"flowId":1,"resourceTimeout":-1,
            "clientOfflineTime":0,"acquireRefuseStrategy":-1,"resourceTimeoutStrategy":-1}}"#,
        UNUSED,
    ),
    (
        r#"{"resource":"r","grade":0,"clusterMode":true,
            "clusterConfig":{"flowId":1,"resourceTimeout":0}}"#,
        None,
    ),
    (
        r#"{"resource":"r","grade":0,"clusterMode":true,
            "clusterConfig":{"flowId":1,"acquireRefuseStrategy":-1}}"#,
        None,
    ),
    (
        r#"{"resource":"r","grade":0,"clusterMode":true,
            "clusterConfig":{"flowId":1,"resourceTimeout":9999999999}}"#,
        BOUND,
    ),
    (
        r#"{"resource":"r","clusterMode":true,
            "clusterConfig":{"flowId":1,"sampleCount":2000,"windowIntervalMs":2000}}"#,
        BOUND,
    ),
    (r#"{"resource":"r","count":1e17}"#, BOUND),
    (r#"{"resource":"r","count":"Infinity"}"#, BOUND),
    // What is no JSON.
    (r#"{"resource":"r",}"#, NO_JSON),
    (r#"{"resource":"r"},"#, NO_JSON),
    (r#"{"resource":"r" /* the one */}"#, NO_JSON),
    (r#"{'resource':'r'}"#, NO_JSON),
    (r#"{resource:"r"}"#, NO_JSON),
    (r#"{"resource":"r","count":+5}"#, NO_JSON),
    (r#"{"resource":"r","count":NaN}"#, NO_JSON),
    (r#"{"resource":"r""#, None),
];

pub(super) const PARAM: &[Case] = &[
    (r#"{"resource":"r","paramIdx":0}"#, None),
    (
        r#"{"resource":"r","limitApp":"shop","grade":0,"param_idx":"-1","count":5.0,
            "controlBehavior":2,"maxQueueingTimeMs":7,"burstCount":3,"durationInSec":"6,000",
            "clusterMode":true,"clusterConfig":{"flowId":9,"thresholdType":1}}"#,
        None,
    ),
    (
        r#"{"resource":"r","paramIdx":0,"clusterMode":true,"clusterConfig":{"flowId":9,
            "fallbackToLocalWhenFail":true,"strategy":3,"resourceTimeout":-1,
            "sampleCount":"6","windowIntervalMs":60000}}"#,
        None,
    ),
    (r#"{"resource":"r"}"#, None),
    (r#"{"resource":"r","paramIdx":""}"#, None),
    (r#"{"resource":"r","paramIdx":-2147483648,"durationInSec":5000000000}"#, None),
    (r#"{"resource":"r","paramIdx":0,"durationInSec":0}"#, None),
    (r#"{"resource":"r","paramIdx":0,"burstCount":-1}"#, None),
    (r#"{"resource":"r","paramIdx":0,"grade":-1}"#, None),
    (r#"{"resource":"r","paramIdx":0,"maxQueueingTimeMs":-1}"#, None),
    (r#"{"resource":"r","paramIdx":0,"clusterMode":true,"clusterConfig":{"flowId":-1}}"#, None),
    (r#"{"resource":"r","paramIdx":0,"paramFlowItemList":""}"#, None),
    (r#"{"resource":"r","paramIdx":0,"paramFlowItemList":7}"#, None),
    (r#"{"resource":"r","paramIdx":0,"paramFlowItemList":{"object":"x","count":3}}"#, None),
    (
        r#"{"resource":"r","paramIdx":0,"paramFlowItemList":[
            {"object":"5","count":"1,000","classType":"int"},
            {"object":5,"count":3.9,"classType":"java.lang.Long"},
            {"object":"+6","count":true,"class_type":"byte"},
            {"object":"7","count":0,"classType":"short"},
            {"object":1.5,"count":4,"classType":"double"},
            {"object":" 2.5f ","count":4,"classType":"java.lang.Float"},
            {"object":"TRUE","count":4,"classType":"boolean"},
            {"object":"vip","count":5},
            {"object":"null","count":6,"classType":"java.lang.String"},
            {"object":"y","count":6,"classType":" int "},
            {"object":"z","count":6,"classType":"com.example.Foo"},
            {"object":"w","count":1}, {"object":"w","count":2}]}"#,
        None,
    ),
    (
        r#"{"resource":"r","paramIdx":0,"paramFlowItemList":[null,[],{},
            {"object":"x","count":3,"classType":"int"}, {"object":" 5","count":3,"classType":"int"},
            {"object":"128","count":3,"classType":"byte"}, {"object":"x","count":-1},
            {"object":"x","count":null}, {"object":null,"count":3}, {"count":3}]}"#,
        None,
    ),
    (r#"{"resource":"r","paramIdx":0,"paramFlowItemList":[{"object":"x","count":"x"}]}"#, ITEM),
    (r#"{"resource":"r","paramIdx":0,"paramFlowItemList":["x"]}"#, ITEM),
    (r#"{"resource":"r","paramIdx":0,"paramFlowItemList":[{"object":[1],"count":3}]}"#, ITEM),
    (
        r#"{"resource":"r","paramIdx":0,
            "paramFlowItemList":[{"object":"q","count":9,"classType":"char"}]}"#,
        Some("no request can carry a char"),
    ),
];

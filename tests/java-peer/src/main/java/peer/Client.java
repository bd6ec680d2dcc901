package peer;

import com.alibaba.csp.sentinel.cluster.ClusterStateManager;
import com.alibaba.csp.sentinel.cluster.TokenResult;
import com.alibaba.csp.sentinel.cluster.TokenServerDescriptor;
import com.alibaba.csp.sentinel.cluster.client.ClientConstants;
import com.alibaba.csp.sentinel.cluster.client.ClusterTokenClient;
import com.alibaba.csp.sentinel.cluster.client.TokenClientProvider;
import com.alibaba.csp.sentinel.cluster.client.config.ClusterClientAssignConfig;
import com.alibaba.csp.sentinel.cluster.client.config.ClusterClientConfig;
import com.alibaba.csp.sentinel.cluster.client.config.ClusterClientConfigManager;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRuleManager;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Sentinel's own cluster client behind a line protocol: one command a line on standard input, one
 * JSON object a line on standard output. The README beside the POM lists commands and answers.
 */
public final class Client {
    private Client() {}

    /**
     * Runs until {@code stop} or the end of standard input.
     *
     * @param args the namespace, which is the application name that the client pings with
     */
    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: peer.Client NAMESPACE");
            System.exit(2);
        }
        PrintStream answers = Stdio.claim();
        System.setProperty("project.name", args[0]);

        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        boolean stopped = false;
        while (!stopped && (line = commands.readLine()) != null) {
            if (line.isBlank()) {
                continue;
            }
            JSONObject answer;
            try {
                answer = run(line.strip());
                stopped = answer.containsKey("stopped");
            } catch (Throwable e) {
                answer = answer().fluentPut("error", e.toString());
            }
            answers.println(answer.toString(SerializerFeature.WriteMapNullValue));
        }
        // Sentinel's and Netty's threads are no daemons and would keep the process alive.
        System.exit(0);
    }

    private static JSONObject run(String line) throws Exception {
        String[] nameAndRest = line.split("\\s+", 2);
        String rest = nameAndRest.length == 2 ? nameAndRest[1] : "";
        return switch (nameAndRest[0]) {
            case "connect" -> connect(Words.of(rest, "HOST PORT TIMEOUT_MS", 3, 3));
            case "state" -> state();
            case "await" -> await(Words.of(rest, "started|off TIMEOUT_MS", 2, 2));
            case "flow" -> flow(Words.of(rest, "ID COUNT PRIO", 3, 3));
            case "param" -> param(Words.of(rest, "ID COUNT [TYPE:VALUE...]", 2, 1_000));
            case "flow-many" -> flowMany(Words.of(rest, "ID COUNT PRIO N THREADS", 5, 5));
            case "rules" -> flowRules(rest);
            case "param-rules" -> paramRules(rest);
            case "valid" -> Validity.of(rest);
            case "entry" -> entry(Words.of(rest, "RESOURCE N [COUNT [PRIO]]", 2, 4));
            case "param-entry" -> paramEntry(Words.of(rest, "RESOURCE TYPE:VALUE N", 3, 3));
            case "paced" -> paced(Words.of(rest, "RESOURCE SECONDS THREADS PORT", 4, 4));
            case "stop" -> stop();
            default -> throw new IllegalArgumentException("unknown command " + nameAndRest[0]);
        };
    }

    private static JSONObject connect(Words words) {
        ClusterClientAssignConfig server =
            new ClusterClientAssignConfig(words.text(0), words.integer(1));
        ClusterClientConfig config = new ClusterClientConfig().setRequestTimeout(words.integer(2));
        // The managers log what they refuse, and go on with the old values.
        if (!ClusterClientConfigManager.isValidAssignConfig(server)
                || !ClusterClientConfigManager.isValidClientConfig(config)) {
            throw new IllegalArgumentException("Sentinel refuses this port or time-out");
        }
        ClusterClientConfigManager.applyNewConfig(config);
        ClusterClientConfigManager.applyNewAssignConfig(server);
        if (!ClusterStateManager.setToClient()) {
            throw new IllegalStateException("Sentinel did not switch to client mode");
        }
        return state();
    }

    private static JSONObject state() {
        TokenServerDescriptor server = client().currentServer();
        return answer()
            .fluentPut("state", isStarted() ? "started" : "off")
            .fluentPut("client_mode", ClusterStateManager.isClient())
            .fluentPut("server", server == null ? null : server.getHost() + ":" + server.getPort());
    }

    private static JSONObject await(Words words) throws InterruptedException {
        boolean wanted = switch (words.text(0)) {
            case "started" -> true;
            case "off" -> false;
            default -> throw new IllegalArgumentException("await what: started or off");
        };
        long start = System.nanoTime();
        long deadline = start + words.integer(1) * 1_000_000L;
        // Sentinel tells nobody about a change of state, so there is nothing to wait on.
        while (isStarted() != wanted && System.nanoTime() - deadline < 0) {
            Thread.sleep(1);
        }
        return state().fluentPut("waited_ms", (System.nanoTime() - start) / 1_000_000);
    }

    private static JSONObject flow(Words words) {
        long id = words.longInteger(0);
        int count = words.integer(1);
        boolean prioritized = Value.bool(words.text(2));
        long start = System.nanoTime();
        return result(client().requestToken(id, count, prioritized), start);
    }

    private static JSONObject param(Words words) {
        long id = words.longInteger(0);
        int count = words.integer(1);
        List<Object> values = new ArrayList<>();
        for (int i = 2; i < words.count(); i++) {
            values.add(Value.parse(words.text(i)));
        }
        long start = System.nanoTime();
        return result(client().requestParamToken(id, count, values), start);
    }

    private static JSONObject result(TokenResult result, long start) {
        long elapsedUs = (System.nanoTime() - start) / 1_000;
        return answer()
            .fluentPut("status", result.getStatus())
            .fluentPut("remaining", result.getRemaining())
            .fluentPut("wait_ms", result.getWaitInMs())
            .fluentPut("elapsed_us", elapsedUs);
    }

    private static JSONObject flowMany(Words words) throws Exception {
        long id = words.longInteger(0);
        int count = words.integer(1);
        boolean prioritized = Value.bool(words.text(2));
        ClusterTokenClient client = client();
        return Burst.run(words.integer(3), words.integer(4),
            () -> client.requestToken(id, count, prioritized).getStatus());
    }

    private static JSONObject flowRules(String json) {
        List<FlowRule> rules = Rules.parse(json, FlowRule.class);
        FlowRuleManager.loadRules(rules);
        return answer()
            .fluentPut("given", rules.size())
            .fluentPut("in_force", FlowRuleManager.getRules().size());
    }

    private static JSONObject paramRules(String json) {
        List<ParamFlowRule> rules = Rules.parse(json, ParamFlowRule.class);
        ParamFlowRuleManager.loadRules(rules);
        return answer()
            .fluentPut("given", rules.size())
            .fluentPut("in_force", ParamFlowRuleManager.getRules().size());
    }

    private static JSONObject entry(Words words) {
        int count = words.count() > 2 ? words.integer(2) : 1;
        boolean prioritized = words.count() > 3 && Value.bool(words.text(3));
        return Entries.run(words.text(0), words.integer(1), count, prioritized);
    }

    private static JSONObject paramEntry(Words words) {
        return Entries.run(
            words.text(0), words.integer(2), 1, false, Value.parse(words.text(1)));
    }

    private static JSONObject paced(Words words) throws Exception {
        return Paced.run(
            words.text(0), words.integer(1), words.integer(2), words.integer(3));
    }

    private static JSONObject stop() throws Exception {
        client().stop();
        return answer().fluentPut("stopped", true);
    }

    private static boolean isStarted() {
        return client().getState() == ClientConstants.CLIENT_STATUS_STARTED;
    }

    private static ClusterTokenClient client() {
        return TokenClientProvider.getClient();
    }

    /** An empty answer that keeps its fields in the order in which they are put. */
    static JSONObject answer() {
        return new JSONObject(true);
    }
}

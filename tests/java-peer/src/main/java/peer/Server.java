package peer;

import com.alibaba.csp.sentinel.cluster.flow.rule.ClusterFlowRuleManager;
import com.alibaba.csp.sentinel.cluster.flow.rule.ClusterParamFlowRuleManager;
import com.alibaba.csp.sentinel.cluster.server.NettyTransportServer;
import com.alibaba.csp.sentinel.cluster.server.ServerConstants;
import com.alibaba.csp.sentinel.cluster.server.config.ClusterServerConfigManager;
import com.alibaba.csp.sentinel.cluster.server.config.ServerFlowConfig;
import com.alibaba.csp.sentinel.init.InitExecutor;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRule;
import java.io.IOException;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Sentinel's own token server, alone in its process. It prints {@code listening PORT} when it
 * accepts connections and runs until the end of standard input.
 */
public final class Server {
    private static final String USAGE = """
        usage: peer.Server [--port PORT] [--max-allowed-qps QPS]
                           [--namespace NAME] [--flow-rules FILE] [--param-rules FILE] ...
          --port             0, the default: a free one
          --max-allowed-qps  requests a second in each namespace; default 1e9
          --namespace        whose rules the files behind it hold, up to the next one; default "default"
        """;
    private static final int BIND_TRIES = 10;

    private Server() {}

    /** One rule file on the command line. */
    private record RuleFile(String namespace, boolean param, Path path) {}

    /** The command line. */
    private record Options(int port, double maxAllowedQps, List<RuleFile> files) {
        static Options parse(String[] args) {
            int port = 0;
            double maxAllowedQps = 1e9;
            String namespace = ServerConstants.DEFAULT_NAMESPACE;
            List<RuleFile> files = new ArrayList<>();
            for (int i = 0; i < args.length; i += 2) {
                if (i + 1 == args.length) {
                    throw new IllegalArgumentException(args[i] + " needs a value");
                }
                String value = args[i + 1];
                switch (args[i]) {
                    case "--port" -> port = Integer.parseInt(value);
                    case "--max-allowed-qps" -> maxAllowedQps = Double.parseDouble(value);
                    case "--namespace" -> namespace = value;
                    case "--flow-rules" -> files.add(new RuleFile(namespace, false, Path.of(value)));
                    case "--param-rules" -> files.add(new RuleFile(namespace, true, Path.of(value)));
                    default -> throw new IllegalArgumentException("unknown option " + args[i]);
                }
            }
            return new Options(port, maxAllowedQps, files);
        }
    }

    /** Exits 0 at the end of standard input, 1 when it cannot serve, 2 for a wrong command line. */
    public static void main(String[] args) throws IOException {
        Options options = null;
        try {
            options = Options.parse(args);
        } catch (IllegalArgumentException e) {
            System.err.print("peer.Server: " + e.getMessage() + "\n" + USAGE);
            System.exit(2);
        }
        PrintStream answers = Stdio.claim();
        try {
            InitExecutor.doInit();
            configure(options);
            answers.println("listening " + listen(options.port()));
            while (System.in.read() >= 0) {
                // Nothing is said to a server; its input only ends.
            }
            System.exit(0);
        } catch (Throwable e) {
            System.err.println("peer.Server: " + e);
            System.exit(1);
        }
    }

    private static void configure(Options options) throws IOException {
        ClusterServerConfigManager.loadGlobalFlowConfig(
            new ServerFlowConfig().setMaxAllowedQps(options.maxAllowedQps()));
        // Rules of a namespace that is not in the set are dropped without a word.
        Set<String> namespaces = new HashSet<>();
        namespaces.add(ServerConstants.DEFAULT_NAMESPACE);
        options.files().forEach(file -> namespaces.add(file.namespace()));
        ClusterServerConfigManager.loadServerNamespaceSet(namespaces);
        for (RuleFile file : options.files()) {
            load(file);
        }
    }

    /** Loads one file, and says on standard error how many of its rules Sentinel took. */
    private static void load(RuleFile file) throws IOException {
        String json = Files.readString(file.path());
        int given;
        int inForce;
        if (file.param()) {
            List<ParamFlowRule> rules = Rules.parse(json, ParamFlowRule.class);
            ClusterParamFlowRuleManager.loadRules(file.namespace(), rules);
            given = rules.size();
            inForce = ClusterParamFlowRuleManager.getParamRules(file.namespace()).size();
        } else {
            List<FlowRule> rules = Rules.parse(json, FlowRule.class);
            ClusterFlowRuleManager.loadRules(file.namespace(), rules);
            given = rules.size();
            inForce = ClusterFlowRuleManager.getFlowRules(file.namespace()).size();
        }
        System.err.println("peer.Server: " + file.path() + ": " + inForce + " of " + given
            + " rules in force in namespace " + file.namespace());
    }

    /** Starts the server and returns the port on which it accepts connections. */
    private static int listen(int wanted) throws Exception {
        for (int tries = 0; tries < (wanted == 0 ? BIND_TRIES : 1); tries++) {
            int port = wanted == 0 ? freePort() : wanted;
            if (accepts(port)) {
                return port;
            }
        }
        throw new IOException("port " + (wanted == 0 ? "that stays free not found" : wanted + " is taken"));
    }

    /** Sentinel has no port 0, so a free one is asked for and may be gone again when it is used. */
    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    /**
     * Whether a server on {@code port} came up. The transport is the one inside
     * {@code SentinelDefaultTokenServer}, which does not tell whether it could bind.
     *
     * <p>One that could not is left alone; it tries its port three times more, in the next 12
     * seconds, and nothing can keep it from that.
     */
    private static boolean accepts(int port) throws Exception {
        NettyTransportServer server = new NettyTransportServer(port);
        server.start();
        while (server.getCurrentState() == ServerConstants.SERVER_STATUS_STARTING) {
            Thread.sleep(1);
        }
        return server.getCurrentState() == ServerConstants.SERVER_STATUS_STARTED;
    }
}

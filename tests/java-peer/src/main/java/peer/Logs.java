package peer;

import com.alibaba.csp.sentinel.Entry;
import com.alibaba.csp.sentinel.EntryType;
import com.alibaba.csp.sentinel.SphU;
import com.alibaba.csp.sentinel.Tracer;
import com.alibaba.csp.sentinel.context.ContextUtil;
import com.alibaba.csp.sentinel.eagleeye.EagleEye;
import com.alibaba.csp.sentinel.node.metric.MetricNode;
import com.alibaba.csp.sentinel.node.metric.MetricSearcher;
import com.alibaba.csp.sentinel.node.metric.MetricWriter;
import com.alibaba.csp.sentinel.slots.block.BlockException;
import com.alibaba.csp.sentinel.slots.block.authority.AuthorityRule;
import com.alibaba.csp.sentinel.slots.block.authority.AuthorityRuleManager;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRule;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRuleManager;
import com.alibaba.csp.sentinel.slots.system.SystemRule;
import com.alibaba.csp.sentinel.slots.system.SystemRuleManager;
import com.alibaba.fastjson.JSON;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Sentinel's own metric log and block log, written and searched; see README.md. */
public final class Logs {
    private MetricWriter writer;

    private Logs() {}

    public static void main(String[] args) throws Exception {
        PrintStream answers = Stdio.claim();
        Logs logs = new Logs();
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int end = line.indexOf(' ');
            String verb = end < 0 ? line : line.substring(0, end);
            String answer = logs.run(verb, end < 0 ? "" : line.substring(end + 1));
            answers.println(line + (answer.isEmpty() ? "" : " = " + answer));
        }
    }

    private String run(String verb, String text) throws Exception {
        switch (verb) {
            case "writer" -> {
                Words words = Words.of(text, "BYTES FILES SECOND", 3, 3);
                writer = new MetricWriter(words.longInteger(0), words.integer(1));
                // It drops what is before its making, by the wall clock.
                Field last = MetricWriter.class.getDeclaredField("lastSecond");
                last.setAccessible(true);
                last.setLong(writer, words.longInteger(2));
            }
            case "write" -> {
                List<MetricNode> nodes =
                    JSON.parseArray(text, String.class).stream().map(MetricNode::fromThinString).toList();
                writer.write(nodes.get(0).getTimestamp(), nodes);
            }
            case "find" -> {
                Words words = Words.of(text, "DIR NAME BEGIN LINES", 4, 4);
                return thin(new MetricSearcher(words.text(0), words.text(1))
                    .find(words.longInteger(2), words.integer(3)));
            }
            case "between" -> {
                Words words = Words.of(text, "DIR NAME BEGIN END [RESOURCE]", 4, 5);
                return thin(new MetricSearcher(words.text(0), words.text(1))
                    .findByTimeAndResource(words.longInteger(2), words.longInteger(3),
                        words.count() < 5 ? null : words.text(4)));
            }
            case "flow" -> FlowRuleManager.loadRules(JSON.parseArray(text, FlowRule.class));
            case "param" ->
                ParamFlowRuleManager.loadRules(JSON.parseArray(text, ParamFlowRule.class));
            case "degrade" -> DegradeRuleManager.loadRules(JSON.parseArray(text, DegradeRule.class));
            case "authority" ->
                AuthorityRuleManager.loadRules(JSON.parseArray(text, AuthorityRule.class));
            case "system" -> SystemRuleManager.loadRules(JSON.parseArray(text, SystemRule.class));
            case "enter" -> {
                return enter(Words.of(text, "RESOURCE ORIGIN in|out COUNT ok|fail [VALUE]", 5, 6));
            }
            case "end" -> EagleEye.shutdown();
            default -> throw new IllegalArgumentException(verb);
        }
        return "";
    }

    private static String enter(Words words) {
        ContextUtil.enter("web", words.text(1).equals("-") ? "" : words.text(1));
        EntryType type = words.text(2).equals("in") ? EntryType.IN : EntryType.OUT;
        Object[] args = words.count() < 6 ? new Object[0] : new Object[] {words.text(5)};
        try {
            Entry entry = SphU.entry(words.text(0), type, words.integer(3), args);
            if (words.text(4).equals("fail")) {
                Tracer.traceEntry(new IllegalStateException(), entry);
            }
            entry.exit(words.integer(3), args);
            return "passed";
        } catch (BlockException e) {
            return "refused";
        } finally {
            ContextUtil.exit();
        }
    }

    /** A JSON list of thin lines; Sentinel's null is an empty one. */
    private static String thin(List<MetricNode> nodes) {
        return JSON.toJSONString(
            nodes == null ? List.of() : nodes.stream().map(MetricNode::toThinString).toList());
    }
}

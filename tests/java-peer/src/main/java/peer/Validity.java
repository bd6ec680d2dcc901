package peer;

import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRuleUtil;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRuleUtil;
import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** What Sentinel makes of the text of one rule: what fastjson reads, and whether it is valid. */
final class Validity {
    private Validity() {}

    /**
     * @param kindAndText {@code flow} or {@code param}, and the text that stands in the array
     */
    static JSONObject of(String kindAndText) throws ReflectiveOperationException {
        String[] parts = kindAndText.split("\\s+", 2);
        if (parts.length != 2) {
            throw new IllegalArgumentException("arguments are flow|param JSON");
        }
        return switch (parts[0]) {
            case "flow" -> of(parts[1], FlowRule.class, FlowRuleUtil::isValidRule);
            case "param" -> of(parts[1], ParamFlowRule.class, ParamFlowRuleUtil::isValidRule);
            default -> throw new IllegalArgumentException("valid what: flow or param");
        };
    }

    private static <T> JSONObject of(String text, Class<T> type, Predicate<T> isValid)
            throws ReflectiveOperationException {
        List<T> rules;
        try {
            rules = Rules.parse("[" + text + "]", type);
        } catch (RuntimeException e) {
            return Client.answer().fluentPut("valid", false).fluentPut("refused", e.getMessage());
        }
        T rule = rules.size() == 1 ? rules.get(0) : null;
        boolean valid = isValid.test(rule);
        JSONObject answer = Client.answer()
            .fluentPut("valid", valid)
            .fluentPut("refused", null)
            .fluentPut("rule", JSON.toJSON(rule));
        if (valid && rule instanceof ParamFlowRule param) {
            answer.put("items", items(param));
        }
        return answer;
    }

    /** The values with a count of their own: [class, value as text, count] each, in no order. */
    private static JSONArray items(ParamFlowRule rule) throws ReflectiveOperationException {
        ParamFlowRuleUtil.fillExceptionFlowItems(rule);
        Method parsed = ParamFlowRule.class.getDeclaredMethod("getParsedHotItems");
        parsed.setAccessible(true);
        JSONArray items = new JSONArray();
        for (Map.Entry<?, ?> item : ((Map<?, ?>) parsed.invoke(rule)).entrySet()) {
            Object value = item.getKey();
            items.fluentAdd(new JSONArray()
                .fluentAdd(value.getClass().getSimpleName())
                .fluentAdd(value.toString())
                .fluentAdd(item.getValue()));
        }
        return items;
    }
}

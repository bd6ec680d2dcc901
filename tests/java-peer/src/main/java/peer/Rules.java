package peer;

import com.alibaba.fastjson.JSON;
import java.util.List;

/** Rule JSON, read as Sentinel reads it. */
final class Rules {
    private Rules() {}

    /**
     * The rules of a JSON array; none for {@code []}. Unknown keys are skipped.
     *
     * @throws RuntimeException for anything else than an array of such rules
     */
    static <T> List<T> parse(String json, Class<T> type) {
        List<T> rules = JSON.parseArray(json, type);
        if (rules == null) {
            throw new IllegalArgumentException("no JSON array of rules");
        }
        return rules;
    }
}

package peer;

import com.alibaba.csp.sentinel.Entry;
import com.alibaba.csp.sentinel.EntryType;
import com.alibaba.csp.sentinel.Env;
import com.alibaba.csp.sentinel.slots.block.BlockException;
import com.alibaba.fastjson.JSONObject;

/** Entries into a resource, through all of Sentinel's slots, one after the other on one thread. */
final class Entries {
    private Entries() {}

    /**
     * Enters and leaves {@code n} times.
     *
     * <p>Calls what {@code SphU.entry} and {@code SphU.entryWithPriority} call, since those leave
     * no choice of count and priority together. A SHOULD_WAIT answer is slept inside the entry.
     */
    static JSONObject run(
            String resource, int n, int count, boolean prioritized, Object... args) {
        int passed = 0;
        int blocked = 0;
        long waited = 0;
        long longest = 0;
        for (int i = 0; i < n; i++) {
            long start = System.nanoTime();
            try {
                Entry entry =
                    Env.sph.entryWithPriority(resource, EntryType.OUT, count, prioritized, args);
                long inside = System.nanoTime() - start;
                entry.exit(count, args);
                passed++;
                waited += inside;
                longest = Math.max(longest, inside);
            } catch (BlockException e) {
                blocked++;
            }
        }
        return Client.answer()
            .fluentPut("passed", passed)
            .fluentPut("blocked", blocked)
            .fluentPut("waited_ms", waited / 1_000_000)
            .fluentPut("longest_ms", longest / 1_000_000);
    }
}

package peer;

import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntSupplier;

/** Many calls over several threads that start together, and what came of them. */
final class Burst {
    private static final int MAX_CALLS = 10_000_000;
    private static final int MAX_THREADS = 1_000;

    private Burst() {}

    /**
     * Makes {@code calls} calls; a thread that is done takes the next one, so that a slow call holds
     * up one thread and no share of the others.
     *
     * @param call one request, which returns its status
     */
    static JSONObject run(int calls, int threads, IntSupplier call) throws Exception {
        if (calls < 1 || calls > MAX_CALLS || threads < 1 || threads > MAX_THREADS) {
            throw new IllegalArgumentException(
                "1 to " + MAX_CALLS + " calls and 1 to " + MAX_THREADS + " threads");
        }
        int[] statuses = new int[calls];
        int[] micros = new int[calls];
        AtomicInteger next = new AtomicInteger();
        CountDownLatch ready = new CountDownLatch(threads);
        CountDownLatch go = new CountDownLatch(1);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                running.add(pool.submit(() -> {
                    ready.countDown();
                    go.await();
                    for (int n; (n = next.getAndIncrement()) < calls; ) {
                        long start = System.nanoTime();
                        statuses[n] = call.getAsInt();
                        micros[n] = (int) ((System.nanoTime() - start) / 1_000);
                    }
                    return null;
                }));
            }
            ready.await();
            long start = System.nanoTime();
            go.countDown();
            for (Future<?> thread : running) {
                thread.get();
            }
            return summary(statuses, micros, (System.nanoTime() - start) / 1_000);
        } finally {
            pool.shutdownNow();
        }
    }

    private static JSONObject summary(int[] statuses, int[] micros, long elapsedUs) {
        Map<Integer, Integer> histogram = new TreeMap<>();
        for (int status : statuses) {
            histogram.merge(status, 1, Integer::sum);
        }
        JSONObject byStatus = Client.answer();
        histogram.forEach((status, calls) -> byStatus.put(status.toString(), calls));
        Arrays.sort(micros);
        return Client.answer()
            .fluentPut("statuses", byStatus)
            .fluentPut("elapsed_us", elapsedUs)
            .fluentPut("p50_us", percentile(micros, 50))
            .fluentPut("p99_us", percentile(micros, 99))
            .fluentPut("max_us", micros[micros.length - 1]);
    }

    /** The smallest value that {@code percent} of all values do not exceed. */
    private static int percentile(int[] sorted, long percent) {
        return sorted[(int) ((sorted.length * percent + 99) / 100) - 1];
    }
}

package peer;

import com.netflix.concurrency.limits.Limit;
import com.netflix.concurrency.limits.Limiter;
import com.netflix.concurrency.limits.limit.AIMDLimit;
import com.netflix.concurrency.limits.limit.FixedLimit;
import com.netflix.concurrency.limits.limit.Gradient2Limit;
import com.netflix.concurrency.limits.limit.VegasLimit;
import com.netflix.concurrency.limits.limiter.AbstractPartitionedLimiter;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.TimeUnit;

/**
 * Netflix' own adaptive limits. Every line of standard input comes out again, with the answer
 * behind it; the README beside the POM lists the lines.
 */
public final class Limits {
    private Limit limit;
    private Limiter<String> limiter;
    private final Map<String, Queue<Limiter.Listener>> calls = new HashMap<>();

    private Limits() {}

    /** Runs until the end of standard input; a line that it does not know ends it with status 1. */
    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(
            new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Limits limits = new Limits();
        String line;
        while ((line = lines.readLine()) != null) {
            String question = line.split(" = ", 2)[0];
            String answer =
                question.isBlank() || question.startsWith("#") ? null : limits.run(question);
            answers.println(answer == null ? question : question + " = " + answer);
        }
    }

    private String run(String line) {
        Words words = Words.of(line, "a line that the README lists", 1, 20);
        switch (words.text(0)) {
            case "aimd" -> limit = AIMDLimit.newBuilder()
                .minLimit(words.integer(1)).initialLimit(words.integer(2)).maxLimit(words.integer(3))
                .backoffRatio(number(words, 4)).timeout(words.longInteger(5), TimeUnit.NANOSECONDS)
                .build();
            case "vegas" -> {
                int alpha = words.integer(3);
                int beta = words.integer(4);
                limit = VegasLimit.newBuilder()
                    .initialLimit(words.integer(1)).maxConcurrency(words.integer(2))
                    .alphaFunction(n -> alpha * log(n)).betaFunction(n -> beta * log(n))
                    .smoothing(number(words, 5))
                    // Probes come by chance; here none does.
                    .probeMultiplier(Integer.MAX_VALUE)
                    .build();
            }
            case "gradient2" -> limit = Gradient2Limit.newBuilder()
                .minLimit(words.integer(1)).initialLimit(words.integer(2))
                .maxConcurrency(words.integer(3)).smoothing(number(words, 4))
                .queueSize(words.integer(5)).rttTolerance(number(words, 6))
                .longWindow(words.integer(7))
                .build();
            case "sample" -> {
                boolean dropped = Value.bool(words.text(3));
                limit.onSample(0, words.longInteger(1), words.integer(2), dropped);
                return Integer.toString(limit.getLimit());
            }
            case "shares" -> shares(words);
            case "acquire" -> {
                Optional<Limiter.Listener> call = limiter.acquire(words.text(1));
                call.ifPresent(listener -> of(words.text(1)).add(listener));
                return call.isPresent() ? "passed" : "refused";
            }
            case "release" -> of(words.text(1)).remove().onSuccess();
            default -> throw new IllegalArgumentException(line);
        }
        return null;
    }

    private void shares(Words words) {
        calls.clear();
        Shares builder = new Shares();
        builder.limit(FixedLimit.of(words.integer(1))).partitionResolver(name -> name);
        for (int i = 2; i + 1 < words.count(); i += 2) {
            builder.partition(words.text(i), words.integer(i + 1) / 100.0);
        }
        limiter = builder.build();
    }

    private Queue<Limiter.Listener> of(String name) {
        return calls.computeIfAbsent(name, any -> new ArrayDeque<>());
    }

    /** As the functions that alpha and beta are by default. */
    private static int log(int limit) {
        return Math.max(1, (int) Math.log10(limit));
    }

    private static double number(Words words, int i) {
        return Double.parseDouble(words.text(i));
    }

    /** A partitioned limiter with nothing else. */
    private static final class Shares extends AbstractPartitionedLimiter.Builder<Shares, String> {
        @Override
        protected Shares self() {
            return this;
        }
    }
}

package com.google.common.util.concurrent;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * Guava's own {@link RateLimiter} on a clock that the input tells. In Guava's package, since only
 * there a limiter can be given a clock. Every line of standard input comes out again, with the
 * answer behind it; the README beside the POM lists the lines.
 */
public final class Guava {
    private final Clock clock = new Clock();
    private RateLimiter limiter;

    private Guava() {}

    /** Runs until the end of standard input; a line that it does not know ends it with status 1. */
    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(
            new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Guava guava = new Guava();
        String line;
        while ((line = lines.readLine()) != null) {
            String question = line.split(" = ", 2)[0];
            String answer =
                question.isBlank() || question.startsWith("#") ? null : guava.run(question);
            answers.println(answer == null ? question : question + " = " + answer);
        }
    }

    private String run(String line) {
        String[] words = line.strip().split("\\s+");
        switch (words[0]) {
            case "bursty" -> {
                clock.now = 0;
                limiter = new SmoothRateLimiter.SmoothBursty(clock, integer(words[2]) / 1e6);
                limiter.setRate(Double.parseDouble(words[1]));
                return null;
            }
            case "warming" -> {
                clock.now = 0;
                limiter = RateLimiter.create(Double.parseDouble(words[1]), integer(words[2]),
                    TimeUnit.MICROSECONDS, Double.parseDouble(words[3]), clock);
                return null;
            }
            default -> clock.now = integer(words[0]);
        }
        clock.slept = 0;
        switch (words[1]) {
            case "acquire" -> limiter.acquire((int) integer(words[2]));
            case "try" -> {
                if (!limiter.tryAcquire(
                        (int) integer(words[2]), integer(words[3]), TimeUnit.MICROSECONDS)) {
                    return "refused";
                }
            }
            case "rate" -> {
                limiter.setRate(Double.parseDouble(words[2]));
                return null;
            }
            default -> throw new IllegalArgumentException(line);
        }
        return Long.toString(clock.slept);
    }

    private static long integer(String word) {
        return Long.parseLong(word);
    }

    /** Stands still while the limiter sleeps, and remembers how long that was. */
    private static final class Clock extends RateLimiter.SleepingStopwatch {
        private long now;
        private long slept;

        @Override
        protected long readMicros() {
            return now;
        }

        @Override
        protected void sleepMicrosUninterruptibly(long micros) {
            slept += micros;
        }
    }
}

package peer;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/**
 * Keeps standard output for answers: whatever Sentinel and Netty print goes to standard error or
 * to the log directory.
 */
final class Stdio {
    private static final String LOG_DIR = "csp.sentinel.log.dir";

    private Stdio() {}

    /**
     * Takes standard output over and returns the only way to it. Must run before the first use of
     * a Sentinel class, since their static initialisers print and open log files.
     *
     * <p>Without {@code -Dcsp.sentinel.log.dir} the logs go to a temporary directory that is
     * removed when the process exits by itself.
     */
    static PrintStream claim() throws IOException {
        PrintStream answers = new PrintStream(
            new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        if (System.getProperty(LOG_DIR) == null) {
            Path logs = Files.createTempDirectory("sentinel-peer-logs-");
            System.setProperty(LOG_DIR, logs.toString());
            Runtime.getRuntime().addShutdownHook(new Thread(() -> removeAll(logs)));
        }
        // The log of Sentinel's statistics logger itself, which otherwise goes below the home.
        System.setProperty("EAGLEEYE.LOG.PATH", System.getProperty(LOG_DIR));
        return answers;
    }

    private static void removeAll(Path dir) {
        try (Stream<Path> paths = Files.walk(dir)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException | java.io.UncheckedIOException e) {
            System.err.println("peer: logs left in " + dir + ": " + e);
        }
    }
}

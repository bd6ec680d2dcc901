package peer;

import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;

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
            File logs = Files.createTempDirectory("sentinel-peer-logs-").toFile();
            System.setProperty(LOG_DIR, logs.getPath());
            Runtime.getRuntime().addShutdownHook(new Thread(() -> remove(logs)));
        }
        // The log of Sentinel's statistics logger itself, which otherwise goes below the home.
        System.setProperty("EAGLEEYE.LOG.PATH", System.getProperty(LOG_DIR));
        return answers;
    }

    /** Removes a directory without subdirectories, though loggers may add to it until the end. */
    private static void remove(File dir) {
        for (int tries = 0; tries < 10 && !dir.delete(); tries++) {
            File[] files = dir.listFiles();
            for (int i = 0; files != null && i < files.length; i++) {
                files[i].delete();
            }
        }
    }
}

package peer;

import com.alibaba.csp.sentinel.Entry;
import com.alibaba.csp.sentinel.SphU;
import com.alibaba.csp.sentinel.slots.block.BlockException;
import com.alibaba.fastjson.JSONObject;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Threads that call a partner as often as a resource lets them, each call a datagram: nanoseconds of
 * the epoch before which its turn cannot have been.
 */
final class Paced {
    private Paced() {}

    /** Calls {@code port} of this machine for {@code seconds}; a blocked entry is tried again. */
    static JSONObject run(String resource, int seconds, int threads, int port) throws Exception {
        long deadline = System.nanoTime() + seconds * 1_000_000_000L;
        InetAddress partner = InetAddress.getLoopbackAddress();
        AtomicInteger passed = new AtomicInteger();
        AtomicInteger blocked = new AtomicInteger();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try (DatagramSocket socket = new DatagramSocket()) {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                running.add(pool.submit(() -> {
                    while (System.nanoTime() - deadline < 0) {
                        try {
                            // The clock of the test may have been set a little later.
                            long asked = (System.currentTimeMillis() - 1) * 1_000_000;
                            Entry entry = SphU.entry(resource);
                            byte[] call = ByteBuffer.allocate(Long.BYTES).putLong(asked).array();
                            socket.send(new DatagramPacket(call, call.length, partner, port));
                            entry.exit();
                            passed.incrementAndGet();
                        } catch (BlockException e) {
                            blocked.incrementAndGet();
                            Thread.sleep(1);
                        }
                    }
                    return null;
                }));
            }
            for (Future<?> thread : running) {
                thread.get();
            }
        } finally {
            pool.shutdownNow();
        }
        return Client.answer()
            .fluentPut("passed", passed.get())
            .fluentPut("blocked", blocked.get());
    }
}

import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** A program that waits, in Java: {@code java Idle.java case}. Prints the same as idle.lua. */
public final class Idle {
    private static void every(long milliseconds) {
        ScheduledExecutorService timers = Executors.newSingleThreadScheduledExecutor();
        timers.scheduleAtFixedRate(() -> {}, milliseconds, milliseconds, TimeUnit.MILLISECONDS);
    }

    private static void listen() throws Exception {
        ServerSocket listener = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
        new Thread(() -> {
            try {
                listener.accept();
            } catch (java.io.IOException nobodyComes) {
                throw new IllegalStateException(nobodyComes);
            }
        }).start();
    }

    private static void compute() {
        long start = System.nanoTime();
        while (System.nanoTime() - start < 1_000_000_000L) {
        }
    }

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "second" -> every(1000);
            case "kilohertz" -> every(1);
            case "listen" -> listen();
            case "hour" -> Executors.newSingleThreadScheduledExecutor().schedule(() -> {}, 1, TimeUnit.HOURS);
            case "busy" -> compute();
            default -> { }
        }
        System.out.println("ready");
        // The main thread waits for standard input, which never has data.
        System.in.read();
    }
}

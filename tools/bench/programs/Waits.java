import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * A program that waits, in Java: {@code Waits idle case} prints the same as idle.lua, and
 * {@code Waits delay seconds count} the same as delay.lua.
 */
public final class Waits {
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

    private static void idle(String name) throws Exception {
        switch (name) {
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

    private static void delay(double seconds, int count) throws InterruptedException {
        long nanoseconds = Math.round(seconds * 1e9);
        double[] late = new double[count];
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long before = System.nanoTime();
            Thread.sleep(nanoseconds / 1_000_000, (int) (nanoseconds % 1_000_000));
            late[i] = (System.nanoTime() - before - nanoseconds) / 1e3;
        }
        System.out.println("took_s " + (System.nanoTime() - start) / 1e9);
        StringBuilder line = new StringBuilder("late_us");
        for (double one : late) {
            line.append(' ').append(one);
        }
        System.out.println(line);
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("idle")) {
            idle(words[1]);
        } else {
            delay(Double.parseDouble(words[1]), Integer.parseInt(words[2]));
        }
    }
}

/** The lateness of sleeps in Java: {@code java Delay.java seconds count}. Prints like delay.lua. */
public final class Delay {
    public static void main(String[] arguments) throws InterruptedException {
        double seconds = Double.parseDouble(arguments[0]);
        int count = Integer.parseInt(arguments[1]);
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
}

package neardup;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Measures how fast one thread sketches: {@code java neardup.Speed FILE SHINGLE ROUNDS} reads JSON
 * lines with a {@code text}, and prints the processor's seconds of each round over all of them.
 */
public final class Speed {
    public static void main(String[] arguments) throws Exception {
        List<String> texts = new ArrayList<>();
        long bytes = 0;
        for (String line : Files.readAllLines(Path.of(arguments[0]), StandardCharsets.UTF_8)) {
            String text = (String) Json.object(Json.parse(line), "a line").get("text");
            texts.add(text);
            bytes += text.getBytes(StandardCharsets.UTF_8).length;
        }
        Sketcher sketcher = new Sketcher(Spec.of(arguments[1]));
        List<Double> seconds = new ArrayList<>();
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        int visible = 0;
        for (int round = Integer.parseInt(arguments[2]); round > 0; round--) {
            long start = clock.getCurrentThreadCpuTime();
            for (String text : texts) {
                visible += sketcher.sketch(text).isPresent() ? 1 : 0;
            }
            seconds.add((clock.getCurrentThreadCpuTime() - start) / 1e9);
        }
        Map<String, Object> measured = new LinkedHashMap<>();
        measured.put("documents", visible / seconds.size());
        measured.put("bytes", bytes);
        measured.put("seconds", seconds);
        System.out.println(Json.write(measured));
    }
}

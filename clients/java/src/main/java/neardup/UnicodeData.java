package neardup;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The character tables of the specification. Java's own are of another version of Unicode in each
 * release, and would give other signatures.
 */
final class UnicodeData {
    static final String VERSION = "14.0.0";
    static final int CODES = 0x110000;

    /** One line of the table file about code points: what is the same for all of a range. */
    record Range(int first, int last, char kind, int combining, char check, int lower) {}

    static final UnicodeData SHARED = new UnicodeData();

    final List<Range> ranges = new ArrayList<>();
    /** Code point to its decomposition, one step. */
    final Map<Integer, int[]> canonical = new HashMap<>();
    final Map<Integer, int[]> compatible = new HashMap<>();
    /** Letters that others pass for, in the profile {@code look-alikes}. */
    final Map<Integer, Integer> lookAlikes = new HashMap<>();

    private final char[] kinds = new char[CODES];
    private final byte[] combining = new byte[CODES];
    private final Map<Long, Integer> composed = new HashMap<>();

    private UnicodeData() {
        java.util.Arrays.fill(kinds, '-');
        boolean[] never = new boolean[CODES];
        for (String line : read("unicode-" + VERSION + ".txt")) {
            String[] fields = line.split(" ");
            switch (fields[0]) {
                case "canonical" -> canonical.put(code(fields[1]), steps(fields));
                case "compatible" -> compatible.put(code(fields[1]), steps(fields));
                default -> add(range(fields), never);
            }
        }
        canonical.forEach((whole, parts) -> {
            if (parts.length == 2 && !never[whole]) {
                composed.put(pair(parts[0], parts[1]), whole);
            }
        });
        for (String line : read("look-alikes.txt")) {
            String[] fields = line.split(" ");
            lookAlikes.put(code(fields[0]), fields[1].codePointAt(0));
        }
    }

    /** Returns the class of a character, a letter that the head of the table file explains. */
    char kind(int code) {
        return kinds[code];
    }

    /** Returns the canonical combining class of a character. */
    int combining(int code) {
        return combining[code] & 0xFF;
    }

    /** Returns the character that two compose to, or -1. */
    int composed(int first, int second) {
        return composed.getOrDefault(pair(first, second), -1);
    }

    private void add(Range range, boolean[] never) {
        ranges.add(range);
        for (int code = range.first(); code <= range.last(); code++) {
            kinds[code] = range.kind();
            combining[code] = (byte) range.combining();
            never[code] = range.check() == 'N';
        }
    }

    private static Range range(String[] fields) {
        return new Range(code(fields[0]), code(fields[1]), fields[2].charAt(0),
                Integer.parseInt(fields[3]), fields[4].charAt(0), Integer.parseInt(fields[5]));
    }

    private static int[] steps(String[] fields) {
        int[] parts = new int[fields.length - 2];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = code(fields[i + 2]);
        }
        return parts;
    }

    private static int code(String hexadecimal) {
        return Integer.parseInt(hexadecimal, 16);
    }

    private static long pair(int first, int second) {
        return (long) first << 32 | second;
    }

    private static List<String> read(String name) {
        try (InputStream stream = UnicodeData.class.getResourceAsStream(name)) {
            if (stream == null) {
                throw new IllegalStateException(name + " is not beside the classes of neardup:"
                        + " copy it from src/neardup/text, as the README of this library says");
            }
            return new BufferedReader(new InputStreamReader(stream, StandardCharsets.US_ASCII))
                    .lines().filter(line -> !line.isEmpty() && !line.startsWith("#")).toList();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}

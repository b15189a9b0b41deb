package neardup;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Checks the vectors of {@code spec/vectors}: {@code java neardup.VectorCheck FILE...} prints how
 * many lines of each kind were checked, and each wrong value; the exit code is 1 if there are any.
 */
public final class VectorCheck {
    private static final HexFormat HEX = HexFormat.of();

    private final Map<String, Integer> checked = new TreeMap<>();
    private final Map<Spec, Sketcher> sketchers = new TreeMap<>(
            java.util.Comparator.comparing(Spec::canonical));
    private final PrintStream out;
    private int wrong;

    private VectorCheck(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] files) throws IOException {
        System.exit(countWrong(List.of(files), System.out) == 0 ? 0 : 1);
    }

    /** Returns how many values are wrong; each is printed, and how many lines were checked. */
    public static int countWrong(List<String> files, PrintStream out) throws IOException {
        VectorCheck check = new VectorCheck(out);
        for (String file : files) {
            for (String line : Files.readAllLines(Path.of(file), StandardCharsets.US_ASCII)) {
                check.line(Json.object(Json.parse(line), "a line"));
            }
        }
        check.checked.forEach((kind, count) -> out.println(kind + "\t" + count));
        return check.wrong;
    }

    private void line(Map<String, Object> line) {
        String kind = (String) line.get("kind");
        Map<String, Object> given = Json.object(line.get("given"), "given");
        Map<String, Object> expected = Json.object(line.get("expected"), "expected");
        Optional<Map<String, Object>> got;
        try {
            got = kind.equals("read") ? read(given, expected) : compute(kind, given);
        } catch (RuntimeException error) {
            got = Optional.of(Map.of("error", error.toString()));
        }
        if (got.isEmpty()) {
            return;
        }
        checked.merge(kind, 1, Integer::sum);
        got.get().forEach((field, value) -> {
            if (!same(value, expected.get(field))) {
                wrong++;
                out.println("WRONG\t" + kind + "\t" + line.get("name") + "\t" + field
                        + "\tgot " + value + ", expected " + expected.get(field));
            }
        });
        if (!got.get().keySet().containsAll(expected.keySet())) {
            wrong++;
            out.println("WRONG\t" + kind + "\t" + line.get("name") + "\tonly "
                    + got.get().keySet() + " of " + expected.keySet());
        }
    }

    private static boolean same(Object a, Object b) {
        return a instanceof Number x && b instanceof Number y
                ? x.doubleValue() == y.doubleValue() : a.equals(b);
    }

    /** Returns the values of a line; nothing if this library does not compute such values. */
    private Optional<Map<String, Object>> compute(String kind, Map<String, Object> given) {
        return switch (kind) {
            case "hash" -> hash(given);
            case "mix" -> Optional.of(Map.of("hash", hex(Xxh64.mix(number(given, "value")))));
            case "blake2b" -> Optional.of(Map.of("digest", HEX.formatHex(Blake2b.digest(
                    bytes(given, "data"), ((Long) given.get("size")).intValue()))));
            case "normalise" -> Optional.of(normalise(given));
            case "units" -> Optional.of(units(given));
            case "shingles" -> sketcher(given).map(sketcher -> shingles(sketcher, given));
            case "document" -> sketcher(given).map(sketcher -> document(sketcher, given));
            case "similarity" -> sketcher(given).map(sketcher -> similarity(sketcher, given));
            case "sketch" -> sketcher(given).map(sketcher -> sketch(sketcher, given));
            case "bands" -> bands(given);
            default -> Optional.empty();
        };
    }

    private static Optional<Map<String, Object>> hash(Map<String, Object> given) {
        byte[] data = bytes(given, "data");
        return switch ((String) given.get("function")) {
            case "xxh64" -> Optional.of(Map.of(
                    "hash", hex(Xxh64.hash(data, 0, data.length, number(given, "seed")))));
            case "siphash" -> Optional.of(Map.of(
                    "hash", hex(new SecretKey(bytes(given, "key")).hash(data, 0, data.length))));
            case "xxh3" -> Optional.of(Map.of("hash", hex(Xxh3.hash(data, data.length))));
            default -> Optional.empty();
        };
    }

    private static Map<String, Object> normalise(Map<String, Object> given) {
        try {
            int[] codes = UnitCutter.normalise(
                    (String) given.get("text"), Profile.of((String) given.get("profile")));
            return Map.of("codes", Arrays.stream(codes).mapToObj(code -> (long) code).toList());
        } catch (IllegalArgumentException error) {
            return Map.of("refused", "surrogate");
        }
    }

    private static Map<String, Object> units(Map<String, Object> given) {
        Spec spec = Spec.of(given.get("unit") + ":1");
        UnitCutter cutter = new UnitCutter(
                Profile.of((String) given.get("profile")), spec.unit());
        int count = cutter.cut((String) given.get("text"));
        List<Object> units = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int begin = i == 0 ? 0 : cutter.ends[i - 1];
            units.add(HEX.formatHex(cutter.bytes, begin, cutter.ends[i]));
        }
        return Map.of("units", units);
    }

    private static Map<String, Object> shingles(Sketcher sketcher, Map<String, Object> given) {
        String text = (String) given.get("text");
        long[] units = sketcher.unitHashes(text);
        return Map.of("unit_hashes", hex(units), "shingles", hex(sketcher.shingles(text)),
                "content", hex(Sketcher.contentHash(units)));
    }

    private static Map<String, Object> document(Sketcher sketcher, Map<String, Object> given) {
        Optional<Sketch> made;
        try {
            made = sketcher.sketch((String) given.get("text"));
        } catch (IllegalArgumentException error) {
            return Map.of("refused", "surrogate");
        }
        if (made.isEmpty()) {
            return Map.of("refused", "empty");
        }
        Map<String, Object> values = values(made.get(), given);
        values.put("fingerprint", sketcher.spec().fingerprint());
        String content = made.get().content().orElseThrow();
        values.put("content", List.of(reversed(content, 0), reversed(content, 16)));
        return values;
    }

    private static Map<String, Object> sketch(Sketcher sketcher, Map<String, Object> given) {
        long[] elements = ((List<?>) given.get("elements")).stream()
                .mapToLong(digits -> HexFormat.fromHexDigitsToLong((String) digits)).toArray();
        return values(sketcher.sketch(elements), given);
    }

    private static Map<String, Object> values(Sketch sketch, Map<String, Object> given) {
        Map<String, Object> values = new TreeMap<>();
        values.put("slots", slots(sketch));
        values.put("keys", hex(sketch.tableKeys(tables(given))));
        values.put("bytes", HEX.formatHex(sketch.toBytes()));
        if (sketch.spec().bits() < 32) {
            values.put("packed", HEX.formatHex(sketch.packed()));
        } else if (!Sketch.fromBytes(sketch.toBytes()).equals(sketch)) {
            values.put("bytes", "not read again");
        }
        return values;
    }

    private static Map<String, Object> similarity(Sketcher sketcher, Map<String, Object> given) {
        String a = (String) given.get("a");
        String b = (String) given.get("b");
        Sketch first = sketcher.sketch(a).orElseThrow();
        Sketch second = sketcher.sketch(b).orElseThrow();
        return Map.of(
                "estimate", first.similarity(second), "jaccard", sketcher.jaccard(a, b));
    }

    private static Optional<Map<String, Object>> bands(Map<String, Object> given) {
        if (!given.get("width").equals(32L)) {
            return Optional.empty();
        }
        int[] slots = ((List<?>) given.get("slots")).stream()
                .mapToInt(digits -> HexFormat.fromHexDigits((String) digits)).toArray();
        return Optional.of(Map.of("keys", hex(Sketch.bandKeys(slots, tables(given)))));
    }

    private static Optional<Map<String, Object>> read(
            Map<String, Object> given, Map<String, Object> expected) {
        if (expected.get("spec") instanceof String spec && !isSupported(spec)) {
            return Optional.empty();
        }
        try {
            Sketch sketch = Sketch.fromBytes(bytes(given, "bytes"));
            return Optional.of(Map.of(
                    "spec", sketch.spec().canonical(), "slots", slots(sketch)));
        } catch (IllegalArgumentException error) {
            return Optional.of(Map.of("refused", true));
        }
    }

    private Optional<Sketcher> sketcher(Map<String, Object> given) {
        if (given.containsKey("tokens")) {
            return Optional.empty();
        }
        String spec = (String) given.get("spec");
        SecretKey key = given.containsKey("key") ? new SecretKey(bytes(given, "key")) : null;
        return isSupported(spec) ? Optional.of(sketchers.computeIfAbsent(
                Spec.parse(spec), missing -> new Sketcher(missing, key))) : Optional.empty();
    }

    private static boolean isSupported(String spec) {
        try {
            Spec.parse(spec);
            return true;
        } catch (IllegalArgumentException unsupported) {
            return false;
        }
    }

    private static List<String> slots(Sketch sketch) {
        return Arrays.stream(sketch.slots()).mapToObj(HEX::toHexDigits).toList();
    }

    private static int[][] tables(Map<String, Object> given) {
        return ((List<?>) given.get("tables")).stream().map(table -> ((List<?>) table).stream()
                .mapToInt(number -> ((Long) number).intValue()).toArray()).toArray(int[][]::new);
    }

    private static String reversed(String digits, int at) {
        return hex(Long.reverseBytes(HexFormat.fromHexDigitsToLong(digits, at, at + 16)));
    }

    private static byte[] bytes(Map<String, Object> given, String name) {
        return HEX.parseHex((String) given.get(name));
    }

    private static long number(Map<String, Object> given, String name) {
        return HexFormat.fromHexDigitsToLong((String) given.get(name));
    }

    private static String hex(long number) {
        return HEX.toHexDigits(number);
    }

    private static List<String> hex(long[] numbers) {
        return Arrays.stream(numbers).mapToObj(VectorCheck::hex).toList();
    }
}

package neardup;

import java.util.Arrays;
import java.util.Optional;

/**
 * Makes sketches of texts: the same as neardup does, on the machine that has the texts. Any thread
 * may use it.
 */
public final class Sketcher {
    private static final long BASE = 0x9E3779B97F4A7C15L;
    private static final long PER_UNIT = 0xD6E8FEB86659FD93L;
    /** Characters of a text whose working memory is kept for the next one. */
    private static final int KEPT = 1 << 16;

    private final Spec spec;
    private final SecretKey key;
    private final Permutations permutations;
    private final long[] asciiHashes = new long[128];
    private final ThreadLocal<UnitCutter> cutters;

    /**
     * Makes a sketcher, which is worth keeping.
     *
     * @param spec what the sketches are made by
     */
    public Sketcher(Spec spec) {
        this(spec, null);
    }

    /**
     * Makes a sketcher with a secret key.
     *
     * @param spec what the sketches are made by, which names the key; see {@link Spec#withKey}
     * @param key the key; null if the specification has none
     */
    public Sketcher(Spec spec, SecretKey key) {
        if (!spec.key().equals(key == null ? "" : key.id())) {
            throw new IllegalArgumentException(spec.key().isEmpty()
                    ? "the specification has no key: use it without one, or Spec.withKey"
                    : "the specification has the key with the id " + spec.key()
                            + ": give that one");
        }
        this.spec = spec;
        this.key = key;
        permutations = new Permutations(
                spec.slots(), key == null ? spec.seed() : key.seed(spec.seed()));
        cutters = ThreadLocal.withInitial(() -> new UnitCutter(spec.profile(), spec.unit()));
        for (int code = 0; code < asciiHashes.length; code++) {
            asciiHashes[code] = hash(new byte[] {(byte) code}, 0, 1);
        }
    }

    /** Returns what the sketches are made by. */
    public Spec spec() {
        return spec;
    }

    /**
     * Returns the sketch of a text, or nothing if nothing of the text is visible: neardup rejects
     * such a text as empty.
     *
     * @param text the text
     * @throws IllegalArgumentException if half of a surrogate pair stands alone in it
     */
    public Optional<Sketch> sketch(String text) {
        long[] units = unitHashes(text);
        if (units.length == 0) {
            return Optional.empty();
        }
        return Optional.of(
                new Sketch(spec, slots(shingleHashes(units)), contentHash(units)));
    }

    /**
     * Returns the sketch of a set of shingles, which may be empty.
     *
     * @param shingles the hashes of the shingles, in any order; repeated ones change nothing
     */
    public Sketch sketch(long[] shingles) {
        return new Sketch(spec, slots(shingles), null);
    }

    /**
     * Returns the shingles of a text as their hashes: distinct, in the order of unsigned numbers;
     * none if nothing of the text is visible.
     *
     * @param text the text
     */
    public long[] shingles(String text) {
        long[] hashes = shingleHashes(unitHashes(text));
        for (int i = 0; i < hashes.length; i++) {
            hashes[i] ^= Long.MIN_VALUE;
        }
        return Arrays.stream(hashes).sorted().distinct().map(h -> h ^ Long.MIN_VALUE).toArray();
    }

    /**
     * Returns the exact Jaccard similarity of two texts: the number of shingles of both, divided by
     * the number of shingles of either.
     *
     * @param a a text
     * @param b another one
     */
    public double jaccard(String a, String b) {
        long[] first = shingles(a);
        long[] second = shingles(b);
        int common = 0;
        for (int i = 0, j = 0; i < first.length && j < second.length;) {
            int order = Long.compareUnsigned(first[i], second[j]);
            common += order == 0 ? 1 : 0;
            i += order <= 0 ? 1 : 0;
            j += order >= 0 ? 1 : 0;
        }
        int either = first.length + second.length - common;
        return either == 0 ? 1 : (double) common / either;
    }

    private int[] slots(long[] shingles) {
        int[] low = new int[shingles.length];
        for (int i = 0; i < low.length; i++) {
            low[i] = (int) shingles[i];
        }
        return permutations.minima(low);
    }

    /** Returns the hashes of the units of a text, in their order. */
    long[] unitHashes(String text) {
        UnitCutter cutter = cutters.get();
        long[] hashes = new long[cutter.cut(text)];
        byte[] bytes = cutter.bytes;
        int begin = 0;
        for (int i = 0; i < hashes.length; i++) {
            int end = cutter.ends[i];
            byte first = bytes[begin];
            hashes[i] = end - begin == 1 && first >= 0 ? asciiHashes[first]
                    : hash(bytes, begin, end - begin);
            begin = end;
        }
        if (cutter.room() > KEPT) {
            cutters.remove();
        }
        return hashes;
    }

    private long hash(byte[] bytes, int start, int length) {
        return key == null ? Xxh64.hash(bytes, start, length, spec.seed())
                : key.hash(bytes, start, length);
    }

    /** Returns the content hash of units: equal for documents that are identical. */
    static long[] contentHash(long[] units) {
        byte[] data = new byte[8 * units.length];
        for (int i = 0; i < units.length; i++) {
            Xxh64.LONGS.set(data, 8 * i, units[i]);
        }
        return new long[] {
            Xxh64.hash(data, 0, data.length, 1), Xxh64.hash(data, 0, data.length, 2),
        };
    }

    /** Returns the hash of every run of units; fewer units than a shingle has are one shingle. */
    private long[] shingleHashes(long[] units) {
        if (units.length == 0) {
            return units;
        }
        int size = Math.min(spec.size(), units.length);
        long oldest = 1; // what the first unit of a shingle is multiplied by
        long sum = 0;
        for (int i = 0; i < size - 1; i++) {
            oldest *= BASE;
            sum = sum * BASE + units[i];
        }
        long[] hashes = new long[units.length - size + 1];
        for (int i = 0; i < hashes.length; i++) {
            sum = sum * BASE + units[i + size - 1];
            hashes[i] = Xxh64.mix(sum + size * PER_UNIT);
            sum -= units[i] * oldest;
        }
        return hashes;
    }
}

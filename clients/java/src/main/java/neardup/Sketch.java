package neardup;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Optional;

/** The sketch of a text: a MinHash signature, and usually the hash of its content. Constant. */
public final class Sketch {
    private static final byte[] MAGIC = "nds1".getBytes(StandardCharsets.US_ASCII);
    private static final int HEAD = 8;
    private static final int CHECKSUM = 8;
    private static final int SPREAD = 0x9E3779B1;

    private final Spec spec;
    private final int[] slots;
    private final long[] content;

    Sketch(Spec spec, int[] slots, long[] content) {
        this.spec = spec;
        this.slots = slots;
        this.content = content;
    }

    /**
     * Returns the sketch of bytes, as {@code to_bytes} of neardup or {@link #toBytes} wrote them.
     *
     * @param data the bytes
     * @throws IllegalArgumentException if they are damaged, or those of a sketch that this library
     *     does not have
     */
    public static Sketch fromBytes(byte[] data) {
        int end = data.length - CHECKSUM;
        if (end < HEAD || !Arrays.equals(data, 0, 4, MAGIC, 0, 4)) {
            throw new IllegalArgumentException("not a neardup sketch: its bytes begin with nds1");
        }
        if ((long) Xxh64.LONGS.get(data, end) != Xxh3.hash(data, end)) {
            throw new IllegalArgumentException("the sketch is damaged, its checksum is wrong:"
                    + " fetch it again; all its numbers are little-endian");
        }
        int length = (int) Xxh64.INTS.get(data, 4);
        if (length < 0 || length > end - HEAD) {
            throw new IllegalArgumentException("the specification of the sketch has no end");
        }
        Spec spec = Spec.parse(new String(data, HEAD, length, StandardCharsets.UTF_8));
        int at = HEAD + length;
        if (spec.bits() < 32 || end - at != 4 * spec.slots()) {
            throw new IllegalArgumentException("the sketch has " + (end - at) + " bytes, not four"
                    + " for each of " + spec.slots() + " slots: make it with all 32 bits");
        }
        int[] slots = new int[spec.slots()];
        for (int i = 0; i < slots.length; i++) {
            slots[i] = (int) Xxh64.INTS.get(data, at + 4 * i);
        }
        return new Sketch(spec, slots, null);
    }

    /** Returns what the sketch was made by. */
    public Spec spec() {
        return spec;
    }

    /** Returns a copy of the slots, each 32 bits without a sign. */
    public int[] slots() {
        return slots.clone();
    }

    /** Returns the content hash, 32 hexadecimal digits; nothing for one of bytes or a union. */
    public Optional<String> content() {
        if (content == null) {
            return Optional.empty();
        }
        byte[] bytes = new byte[16];
        Xxh64.LONGS.set(bytes, 0, content[0]);
        Xxh64.LONGS.set(bytes, 8, content[1]);
        return Optional.of(HexFormat.of().formatHex(bytes));
    }

    /** Returns the slots as the service takes them: base64 of four bytes each, little-endian. */
    public String base64() {
        byte[] bytes = new byte[4 * slots.length];
        write(slots, bytes, 0);
        return Base64.getEncoder().encodeToString(bytes);
    }

    /**
     * Estimates the Jaccard similarity of two texts: the share of their equal slots; with fewer
     * bits, less the share that is equal by chance.
     *
     * @param other a sketch of the same specification
     */
    public double similarity(Sketch other) {
        spec.requireSame(other.spec);
        int equal = 0;
        for (int i = 0; i < slots.length; i++) {
            equal += cut(slots[i]) == cut(other.slots[i]) ? 1 : 0;
        }
        double share = (double) equal / slots.length;
        if (spec.bits() == 32) {
            return share;
        }
        double chance = Math.pow(2, -spec.bits());
        return Math.max((share - chance) / (1 - chance), 0);
    }

    /**
     * Returns the keys of bands: two texts are candidates if a key of theirs is equal.
     *
     * @param bands how many bands
     * @param rows how many slots a band has
     */
    public long[] bandKeys(int bands, int rows) {
        return tableKeys(new int[][] {{bands, rows}});
    }

    /**
     * Returns the keys of the bands of several tables, which lie over consecutive slots.
     *
     * @param tables number of bands and rows of each table
     */
    public long[] tableKeys(int[][] tables) {
        return bandKeys(slots, tables);
    }

    static long[] bandKeys(int[] slots, int[][] tables) {
        long needed = 0;
        int count = 0;
        for (int[] table : tables) {
            if (table.length != 2 || table[0] < 1 || table[1] < 1) {
                throw new IllegalArgumentException("a table has a number of bands and of rows");
            }
            count += table[0];
            needed += (long) table[0] * table[1];
        }
        if (needed > slots.length) {
            throw new IllegalArgumentException("the bands need " + needed
                    + " slots, the sketch has " + slots.length + ": use fewer bands or rows");
        }
        byte[] bytes = new byte[4 * slots.length];
        write(slots, bytes, 0);
        long[] keys = new long[count];
        int band = 0;
        int at = 0;
        for (int[] table : tables) {
            for (int end = band + table[0]; band < end; band++) {
                keys[band] = Xxh64.hash(bytes, at, 4 * table[1], band);
                at += 4 * table[1];
            }
        }
        return keys;
    }

    /**
     * Returns the sketch of the union of both sets of shingles.
     *
     * @param other a sketch of the same specification
     */
    public Sketch union(Sketch other) {
        spec.requireSame(other.spec);
        int[] least = new int[slots.length];
        for (int i = 0; i < least.length; i++) {
            boolean mine = Integer.compareUnsigned(slots[i], other.slots[i]) < 0;
            least[i] = mine ? slots[i] : other.slots[i];
        }
        return new Sketch(spec, least, null);
    }

    /** Returns the sketch as bytes, for {@code MinHash} or {@code BBitMinHash} in Python. */
    public byte[] toBytes() {
        byte[] text = spec.canonical().getBytes(StandardCharsets.US_ASCII);
        int at = HEAD + text.length;
        byte[] stored = packed();
        int end = at + stored.length;
        byte[] data = new byte[end + CHECKSUM];
        System.arraycopy(MAGIC, 0, data, 0, MAGIC.length);
        Xxh64.INTS.set(data, 4, text.length);
        System.arraycopy(text, 0, data, HEAD, text.length);
        System.arraycopy(stored, 0, data, at, stored.length);
        Xxh64.LONGS.set(data, end, Xxh3.hash(data, end));
        return data;
    }

    /** Returns the slots as they are stored: with fewer bits, the packed ones. */
    byte[] packed() {
        int bits = spec.bits();
        byte[] data = new byte[(slots.length * bits + 7) / 8];
        for (int i = 0; i < slots.length; i++) {
            int place = i * bits;
            int value = cut(slots[i]) << (place & 7);
            for (int done = 0; done < bits; done += 8) {
                data[place + done >> 3] |= (byte) (value >>> done);
            }
        }
        return data;
    }

    /** Returns the bits of a slot that are compared. */
    private int cut(int slot) {
        return spec.bits() == 32 ? slot : slot * SPREAD >>> 32 - spec.bits();
    }

    private static void write(int[] slots, byte[] data, int at) {
        for (int i = 0; i < slots.length; i++) {
            Xxh64.INTS.set(data, at + 4 * i, slots[i]);
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Sketch sketch && spec.equals(sketch.spec)
                && Arrays.equals(slots, sketch.slots);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(slots);
    }

    @Override
    public String toString() {
        return "Sketch[" + spec.canonical() + "]";
    }
}

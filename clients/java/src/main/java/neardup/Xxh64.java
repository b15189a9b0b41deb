package neardup;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** xxHash64, and the mixing of 64 bits. A {@code long} stands for its 64 bits without a sign. */
final class Xxh64 {
    static final VarHandle LONGS =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    static final VarHandle INTS =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    static final long P1 = 0x9E3779B185EBCA87L;
    static final long P2 = 0xC2B2AE3D27D4EB4FL;
    static final long P3 = 0x165667B19E3779F9L;
    static final long P4 = 0x85EBCA77C2B2AE63L;
    static final long P5 = 0x27D4EB2F165667C5L;

    private Xxh64() {}

    /** Returns the hash of a part of an array. */
    static long hash(byte[] data, int start, int length, long seed) {
        int at = start;
        int end = start + length;
        long h;
        if (length >= 32) {
            long a = seed + P1 + P2;
            long b = seed + P2;
            long c = seed;
            long d = seed - P1;
            for (; at + 32 <= end; at += 32) {
                a = round(a, (long) LONGS.get(data, at));
                b = round(b, (long) LONGS.get(data, at + 8));
                c = round(c, (long) LONGS.get(data, at + 16));
                d = round(d, (long) LONGS.get(data, at + 24));
            }
            h = Long.rotateLeft(a, 1) + Long.rotateLeft(b, 7)
                    + Long.rotateLeft(c, 12) + Long.rotateLeft(d, 18);
            h = absorb(absorb(absorb(absorb(h, a), b), c), d);
        } else {
            h = seed + P5;
        }
        h += length;
        for (; at + 8 <= end; at += 8) {
            h = Long.rotateLeft(h ^ round(0, (long) LONGS.get(data, at)), 27) * P1 + P4;
        }
        if (at + 4 <= end) {
            h ^= ((int) INTS.get(data, at) & 0xFFFFFFFFL) * P1;
            h = Long.rotateLeft(h, 23) * P2 + P3;
            at += 4;
        }
        for (; at < end; at++) {
            h = Long.rotateLeft(h ^ (data[at] & 0xFF) * P5, 11) * P1;
        }
        return avalanche(h);
    }

    /** Returns the hash of a text in UTF-8. */
    static long hash(String text, long seed) {
        byte[] data = text.getBytes(StandardCharsets.UTF_8);
        return hash(data, 0, data.length, seed);
    }

    static long round(long acc, long lane) {
        return Long.rotateLeft(acc + lane * P2, 31) * P1;
    }

    private static long absorb(long h, long acc) {
        return (h ^ round(0, acc)) * P1 + P4;
    }

    static long avalanche(long h) {
        h = (h ^ h >>> 33) * P2;
        h = (h ^ h >>> 29) * P3;
        return h ^ h >>> 32;
    }

    /** Returns the bits of a number mixed by the 64-bit finaliser of MurmurHash3. */
    static long mix(long h) {
        h = (h ^ h >>> 33) * 0xFF51AFD7ED558CCDL;
        h = (h ^ h >>> 33) * 0xC4CEB9FE1A85EC53L;
        return h ^ h >>> 33;
    }
}

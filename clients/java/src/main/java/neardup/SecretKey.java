package neardup;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

/**
 * A secret key of 16 bytes: nobody without it can tell what a sketch is made of. It is in no sketch
 * and is never sent; specifications have its {@link #id}.
 */
public final class SecretKey {
    private static final int SIZE = 16;

    private final byte[] bytes;
    private final long first;
    private final long second;

    /**
     * Makes the key of 16 bytes.
     *
     * @param bytes the bytes
     */
    public SecretKey(byte[] bytes) {
        if (bytes.length != SIZE) {
            throw new IllegalArgumentException("a key has 16 bytes, not " + bytes.length);
        }
        this.bytes = bytes.clone();
        first = (long) Xxh64.LONGS.get(bytes, 0);
        second = (long) Xxh64.LONGS.get(bytes, 8);
    }

    /**
     * Returns the key of 32 hexadecimal digits.
     *
     * @param digits the digits
     */
    public static SecretKey parse(String digits) {
        if (!digits.matches("[0-9a-fA-F]{32}")) { // what was given is not in the message
            throw new IllegalArgumentException("a key has 32 hexadecimal digits");
        }
        return new SecretKey(HexFormat.of().parseHex(digits));
    }

    /** Returns the id by which specifications name it, from which it can't be derived. */
    public String id() {
        return HexFormat.of().formatHex(
                Blake2b.digest(new byte[0], 8, bytes, ascii("neardup key id")));
    }

    /** Returns the seed of the constants, which are secret too. */
    long seed(long seed) {
        byte[] data = new byte[8];
        Xxh64.LONGS.set(data, 0, seed);
        return (long) Xxh64.LONGS.get(
                Blake2b.digest(data, 8, bytes, ascii("neardup seed")), 0);
    }

    /** Returns the SipHash-2-4 of a part of an array. */
    long hash(byte[] data, int start, int length) {
        Sip sip = new Sip(first, second);
        int whole = length & ~7;
        for (int at = 0; at < whole; at += 8) {
            sip.absorb((long) Xxh64.LONGS.get(data, start + at));
        }
        long last = (long) length << 56;
        for (int at = whole; at < length; at++) {
            last |= (data[start + at] & 0xFFL) << 8 * (at & 7);
        }
        sip.absorb(last);
        return sip.finish();
    }

    private static byte[] ascii(String purpose) {
        return purpose.getBytes(StandardCharsets.US_ASCII);
    }

    /** The state of SipHash. */
    private static final class Sip {
        private long a;
        private long b;
        private long c;
        private long d;

        Sip(long first, long second) {
            a = first ^ 0x736F6D6570736575L;
            b = second ^ 0x646F72616E646F6DL;
            c = first ^ 0x6C7967656E657261L;
            d = second ^ 0x7465646279746573L;
        }

        void absorb(long word) {
            d ^= word;
            stir();
            stir();
            a ^= word;
        }

        long finish() {
            c ^= 0xFF;
            for (int round = 0; round < 4; round++) {
                stir();
            }
            return a ^ b ^ c ^ d;
        }

        private void stir() {
            a += b;
            c += d;
            b = Long.rotateLeft(b, 13) ^ a;
            d = Long.rotateLeft(d, 16) ^ c;
            a = Long.rotateLeft(a, 32);
            c += b;
            a += d;
            b = Long.rotateLeft(b, 17) ^ c;
            d = Long.rotateLeft(d, 21) ^ a;
            c = Long.rotateLeft(c, 32);
        }
    }
}

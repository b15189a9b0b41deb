package neardup;

import java.util.HexFormat;

/** XXH3 of 64 bits, without a seed: the checksum of a serialised sketch. */
final class Xxh3 {
    private static final byte[] SECRET = HexFormat.of().parseHex(
            "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
            + "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
            + "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
            + "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
            + "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
            + "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e");
    private static final long PRIME32_1 = 0x9E3779B1L;
    private static final long PRIME32_2 = 0x85EBCA77L;
    private static final long PRIME32_3 = 0xC2B2AE3DL;
    private static final long PRIME_MX1 = 0x165667919E3779F9L;
    private static final long PRIME_MX2 = 0x9FB21C651E98DF25L;
    private static final int STRIPE = 64;
    private static final int STRIPES = (SECRET.length - STRIPE) / 8;

    private Xxh3() {}

    /** Returns the hash of the first bytes of an array. */
    static long hash(byte[] data, int length) {
        if (length <= 16) {
            return hashShort(data, length);
        }
        if (length <= 240) {
            return hashMiddle(data, length);
        }
        return hashLong(data, length);
    }

    private static long hashShort(byte[] data, int length) {
        if (length > 8) {
            long low = read(data, 0) ^ secret(24) ^ secret(32);
            long high = read(data, length - 8) ^ secret(40) ^ secret(48);
            return avalanche(length + Long.reverseBytes(low) + high + fold(low, high));
        }
        if (length >= 4) {
            long both = read32(data, length - 4) + (read32(data, 0) << 32);
            long h = both ^ secret(8) ^ secret(16);
            h ^= Long.rotateLeft(h, 49) ^ Long.rotateLeft(h, 24);
            h *= PRIME_MX2;
            h ^= (h >>> 35) + length;
            h *= PRIME_MX2;
            return h ^ h >>> 28;
        }
        if (length == 0) {
            return Xxh64.avalanche(secret(56) ^ secret(64));
        }
        long three = (data[0] & 0xFFL) << 16 | (data[length >> 1] & 0xFFL) << 24
                | data[length - 1] & 0xFFL | (long) length << 8;
        return Xxh64.avalanche(three ^ ((secret(0) ^ secret(0) >>> 32) & 0xFFFFFFFFL));
    }

    private static long hashMiddle(byte[] data, int length) {
        long acc = length * Xxh64.P1;
        if (length <= 128) {
            for (int i = (length - 1) / 32; i >= 0; i--) {
                acc += mixed(data, 16 * i, 32 * i);
                acc += mixed(data, length - 16 * (i + 1), 32 * i + 16);
            }
            return avalanche(acc);
        }
        int rounds = length / 16;
        for (int i = 0; i < 8; i++) {
            acc += mixed(data, 16 * i, 16 * i);
        }
        acc = avalanche(acc);
        for (int i = 8; i < rounds; i++) {
            acc += mixed(data, 16 * i, 16 * (i - 8) + 3);
        }
        return avalanche(acc + mixed(data, length - 16, 136 - 17));
    }

    private static long hashLong(byte[] data, int length) {
        long[] acc = {
            PRIME32_3, Xxh64.P1, Xxh64.P2, Xxh64.P3, Xxh64.P4, PRIME32_2, Xxh64.P5, PRIME32_1,
        };
        int stripes = (length - 1) / STRIPE;
        for (int stripe = 0; stripe < stripes; stripe++) {
            accumulate(acc, data, stripe * STRIPE, stripe % STRIPES * 8);
            if (stripe % STRIPES == STRIPES - 1) {
                scramble(acc);
            }
        }
        accumulate(acc, data, length - STRIPE, SECRET.length - STRIPE - 7);
        long merged = length * Xxh64.P1;
        for (int i = 0; i < 4; i++) {
            merged += fold(acc[2 * i] ^ secret(11 + 16 * i), acc[2 * i + 1] ^ secret(19 + 16 * i));
        }
        return avalanche(merged);
    }

    private static void accumulate(long[] acc, byte[] data, int at, int secret) {
        for (int i = 0; i < 8; i++) {
            long value = read(data, at + 8 * i);
            long keyed = value ^ secret(secret + 8 * i);
            acc[i ^ 1] += value;
            acc[i] += (keyed & 0xFFFFFFFFL) * (keyed >>> 32);
        }
    }

    private static void scramble(long[] acc) {
        for (int i = 0; i < 8; i++) {
            acc[i] = (acc[i] ^ acc[i] >>> 47 ^ secret(SECRET.length - STRIPE + 8 * i)) * PRIME32_1;
        }
    }

    private static long mixed(byte[] data, int at, int secret) {
        return fold(read(data, at) ^ secret(secret), read(data, at + 8) ^ secret(secret + 8));
    }

    /** Returns both halves of the product of two unsigned numbers, XORed. */
    private static long fold(long x, long y) {
        long high = Math.multiplyHigh(x, y) + (x >> 63 & y) + (y >> 63 & x);
        return x * y ^ high;
    }

    private static long avalanche(long h) {
        h = (h ^ h >>> 37) * PRIME_MX1;
        return h ^ h >>> 32;
    }

    private static long secret(int at) {
        return (long) Xxh64.LONGS.get(SECRET, at);
    }

    private static long read(byte[] data, int at) {
        return (long) Xxh64.LONGS.get(data, at);
    }

    private static long read32(byte[] data, int at) {
        return (int) Xxh64.INTS.get(data, at) & 0xFFFFFFFFL;
    }
}

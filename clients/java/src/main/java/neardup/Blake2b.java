package neardup;

import java.util.Arrays;

/** BLAKE2b, as far as fingerprints of specifications and secret keys need it. */
final class Blake2b {
    private static final long[] START = {
        0x6A09E667F3BCC908L, 0xBB67AE8584CAA73BL, 0x3C6EF372FE94F82BL, 0xA54FF53A5F1D36F1L,
        0x510E527FADE682D1L, 0x9B05688C2B3E6C1FL, 0x1F83D9ABFB41BD6BL, 0x5BE0CD19137E2179L,
    };
    /** The words of a block in the order of each round, a hexadecimal digit a word. */
    private static final String[] ORDERS = {
        "0123456789abcdef", "ea489fd61c02b753",
        "b8c052fdae367194", "7931dcbe265a40f8",
        "905724afe1bc683d", "2c6a0b834d75fe19",
        "c51fed4a0763928b", "db7ec13950f4862a",
        "6fe9b308c2d714a5", "a2847615fb9e3cd0",
    };
    private static final int ROUNDS = 12;
    private static final int BLOCK = 128;

    private Blake2b() {}

    /** Returns the digest of this many bytes. */
    static byte[] digest(byte[] data, int size) {
        return digest(data, size, new byte[0], new byte[0]);
    }

    /** Returns the digest under a key, for a purpose of at most 16 bytes; both may be empty. */
    static byte[] digest(byte[] data, int size, byte[] key, byte[] purpose) {
        long[] state = START.clone();
        state[0] ^= 0x01010000L ^ key.length << 8 ^ size;
        byte[] personal = Arrays.copyOf(purpose, 16);
        state[6] ^= (long) Xxh64.LONGS.get(personal, 0);
        state[7] ^= (long) Xxh64.LONGS.get(personal, 8);
        byte[] input = data;
        if (key.length > 0) { // a block of its own, in front
            input = Arrays.copyOf(key, BLOCK + data.length);
            System.arraycopy(data, 0, input, BLOCK, data.length);
        }
        int at = 0;
        for (; input.length - at > BLOCK; at += BLOCK) {
            compress(state, Arrays.copyOfRange(input, at, at + BLOCK), at + BLOCK, false);
        }
        compress(state, Arrays.copyOfRange(input, at, at + BLOCK), input.length, true);
        byte[] digest = new byte[size];
        for (int i = 0; i < size; i++) {
            digest[i] = (byte) (state[i >> 3] >>> 8 * (i & 7));
        }
        return digest;
    }

    private static void compress(long[] state, byte[] block, long counted, boolean last) {
        long[] v = new long[16];
        System.arraycopy(state, 0, v, 0, 8);
        System.arraycopy(START, 0, v, 8, 8);
        v[12] ^= counted;
        if (last) {
            v[14] = ~v[14];
        }
        for (int round = 0; round < ROUNDS; round++) {
            String order = ORDERS[round % ORDERS.length];
            for (int i = 0; i < 8; i++) {
                int turn = i < 4 ? 0 : 1; // columns first, then diagonals
                int a = i & 3;
                stir(v, a, 4 + (i + turn & 3), 8 + (i + 2 * turn & 3), 12 + (i + 3 * turn & 3),
                        word(block, order.charAt(2 * i)), word(block, order.charAt(2 * i + 1)));
            }
        }
        for (int i = 0; i < 8; i++) {
            state[i] ^= v[i] ^ v[i + 8];
        }
    }

    private static long word(byte[] block, char digit) {
        return (long) Xxh64.LONGS.get(block, 8 * Character.digit(digit, 16));
    }

    private static void stir(long[] v, int a, int b, int c, int d, long x, long y) {
        v[a] += v[b] + x;
        v[d] = Long.rotateRight(v[d] ^ v[a], 32);
        v[c] += v[d];
        v[b] = Long.rotateRight(v[b] ^ v[c], 24);
        v[a] += v[b] + y;
        v[d] = Long.rotateRight(v[d] ^ v[a], 16);
        v[c] += v[d];
        v[b] = Long.rotateRight(v[b] ^ v[c], 63);
    }
}

package neardup;

/** The hash functions of the slots, {@code (a x + b) mod 2^32}: the family affine32. */
final class Permutations {
    private final int[] factors;
    /** Each with its highest bit flipped, so that Java's order with signs is that without. */
    private final int[] terms;

    Permutations(int slots, long seed) {
        factors = new int[slots];
        terms = new int[slots];
        for (int slot = 0; slot < slots; slot++) {
            factors[slot] = (int) Xxh64.hash("a:" + slot, seed) | 1;
            terms[slot] = (int) Xxh64.hash("b:" + slot, seed) ^ Integer.MIN_VALUE;
        }
    }

    /** Returns for each slot the least value over the elements, as an unsigned number. */
    int[] minima(int[] elements) {
        int count = elements.length;
        int[] least = new int[factors.length];
        java.util.Arrays.fill(least, Integer.MAX_VALUE);
        for (int i = 0; i < count; i += 2) {
            lower(least, factors, terms, elements[i], elements[Math.min(i + 1, count - 1)]);
        }
        for (int slot = 0; slot < least.length; slot++) {
            least[slot] ^= Integer.MIN_VALUE;
        }
        return least;
    }

    /**
     * Lowers the slots to the values of two elements. The minimum is written in arithmetic because
     * Java 17 makes vector instructions of that, but not of {@code Math.min}: a fifth of the time.
     */
    private static void lower(int[] least, int[] factors, int[] terms, int x, int y) {
        for (int slot = 0; slot < least.length; slot++) {
            int factor = factors[slot];
            int term = terms[slot];
            int u = factor * x + term;
            int v = factor * y + term;
            int difference = u - v;
            int either = u ^ v;
            u = v ^ either & (difference ^ either & (difference ^ u)) >> 31;
            v = least[slot];
            difference = u - v;
            either = u ^ v;
            least[slot] = v ^ either & (difference ^ either & (difference ^ u)) >> 31;
        }
    }
}

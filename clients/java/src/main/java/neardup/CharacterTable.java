package neardup;

import java.nio.IntBuffer;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.Map;

/**
 * What a profile makes of each character, with one look-up: its class, whether it may have to be
 * normalised, its combining class, and the character that it becomes.
 */
final class CharacterTable {
    static final int OTHER = 0;
    static final int WORD = 1;
    /** A word by itself: characters of scripts without spaces. */
    static final int ALONE = 2;
    static final int MARK = 3;
    static final int DROPPED = 4;
    static final int SPACE = 5;

    private static final int KINDS = 7;
    private static final int UNSETTLED = 8;
    private static final int COMBINING = 4;
    private static final int FOLD = 12;
    private static final int BLOCK = 7;
    private static final Map<Profile, CharacterTable> MADE = new EnumMap<>(Profile.class);

    private final char[] places = new char[UnicodeData.CODES >> BLOCK];
    private final int[] entries;

    private CharacterTable(int[] all) {
        Map<IntBuffer, Integer> distinct = new HashMap<>();
        int[] kept = new int[all.length];
        int size = 1 << BLOCK;
        for (int place = 0; place < places.length; place++) {
            IntBuffer block = IntBuffer.wrap(all, place * size, size).slice();
            Integer at = distinct.putIfAbsent(block, distinct.size());
            if (at == null) {
                at = distinct.size() - 1;
                System.arraycopy(all, place * size, kept, at * size, size);
            }
            places[place] = (char) (int) at;
        }
        entries = java.util.Arrays.copyOf(kept, distinct.size() * size);
    }

    /** Returns the table of a profile, which is made once. */
    static synchronized CharacterTable of(Profile profile) {
        return MADE.computeIfAbsent(profile, missing -> new CharacterTable(fill(missing)));
    }

    /** Returns the entry of a character, for the functions below. */
    int entry(int code) {
        return entries[places[code >> BLOCK] << BLOCK | code & (1 << BLOCK) - 1];
    }

    static int kind(int entry) {
        return entry & KINDS;
    }

    /** Returns whether a character, after one of a combining class, may not be in normal form. */
    static boolean isUnsettled(int entry, int before) {
        int combining = combining(entry);
        return (entry & UNSETTLED) != 0 || combining != 0 && combining < before;
    }

    static int combining(int entry) {
        return entry >> COMBINING & 0xFF;
    }

    /** Returns what a character becomes: its lower case, a 0, a Latin letter. */
    static int folded(int code, int entry) {
        return code + (entry >> FOLD);
    }

    private static int[] fill(Profile profile) {
        int[] all = new int[UnicodeData.CODES];
        for (UnicodeData.Range range : UnicodeData.SHARED.ranges) {
            int properties = number(range.kind()) | range.combining() << COMBINING
                    | (range.check() == 'Y' ? 0 : UNSETTLED);
            for (int code = range.first(); code <= range.last(); code++) {
                int fold = profile == Profile.CONSERVATIVE ? 0 : range.lower();
                if (profile.unifies() && range.kind() == 'N') {
                    fold = '0' - code;
                }
                all[code] = properties | fold << FOLD;
            }
        }
        for (int code = 0; code < all.length; code++) {
            if (profile == Profile.LOOK_ALIKES) {
                Integer letter = UnicodeData.SHARED.lookAlikes.get(folded(code, all[code]));
                if (letter != null) {
                    all[code] = all[code] & (1 << FOLD) - 1 & ~KINDS | WORD | letter - code << FOLD;
                }
            }
            if (profile.drops(code)) {
                all[code] = all[code] & ~KINDS | DROPPED;
            }
        }
        return all;
    }

    private static int number(char kind) {
        return switch (kind) {
            case 'W', 'N' -> WORD;
            case 'S' -> ALONE;
            case 'M', 'A' -> MARK;
            case 'D' -> DROPPED;
            case '_' -> SPACE;
            default -> OTHER;
        };
    }
}

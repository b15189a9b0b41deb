package neardup;

import java.util.Arrays;
import java.util.stream.Collectors;

/** How texts are normalised before they are compared. */
public enum Profile {
    /** Normal form C; upper and lower case differ. */
    CONSERVATIVE,
    /** Normal form C, lower case. */
    STANDARD,
    /** As {@link #STANDARD}, without invisible characters and vowel marks. */
    PLAIN,
    /** Compatibility forms are unified, accents and digits don't count. */
    AGGRESSIVE,
    /** As {@link #AGGRESSIVE}, and letters that look like Latin ones are these. */
    LOOK_ALIKES;

    private static final int[][] HIDDEN = {
        {0x061C}, {0x200B}, {0x200E, 0x200F}, {0x202A, 0x202E}, {0x2061, 0x2064},
        {0x2066, 0x206F}, {0x3164}, {0xFFA0}, {0xFFF9, 0xFFFB}, {0xE0001}, {0xE0020, 0xE007F},
    };
    private static final int[][] VOWEL_MARKS = {
        {0x0591, 0x05BD}, {0x05BF}, {0x05C1, 0x05C2}, {0x05C4, 0x05C5}, {0x05C7},
        {0x0610, 0x061A}, {0x0640}, {0x064B, 0x0652}, {0x0656, 0x065F}, {0x0670},
        {0x06D6, 0x06DC}, {0x06DF, 0x06E4}, {0x06E7, 0x06E8}, {0x06EA, 0x06ED},
        {0x08D3, 0x08E1}, {0x08E3, 0x08FF},
    };
    private static final int[][] FILLERS = {
        {0x115F, 0x1160}, {0x17B4, 0x17B5}, {0x1D173, 0x1D17A},
    };

    /** Returns the profile of a name, as specifications have it. */
    static Profile of(String name) {
        return Arrays.stream(values()).filter(each -> each.label().equals(name)).findFirst()
                .orElseThrow(() -> new IllegalArgumentException("text profile " + name
                        + " is not known: use one of " + Arrays.stream(values())
                        .map(Profile::label).collect(Collectors.joining(", "))));
    }

    /** Returns the name that specifications have for it. */
    String label() {
        return name().toLowerCase(java.util.Locale.ROOT).replace('_', '-');
    }

    /** Returns whether compatibility forms, accents and digits are unified. */
    boolean unifies() {
        return this == AGGRESSIVE || this == LOOK_ALIKES;
    }

    /** Returns whether the profile drops a character that others keep. */
    boolean drops(int code) {
        return switch (this) {
            case PLAIN -> isIn(HIDDEN, code) || isIn(VOWEL_MARKS, code);
            case LOOK_ALIKES -> isIn(HIDDEN, code) || isIn(FILLERS, code)
                    || isIn(VOWEL_MARKS, code);
            default -> false;
        };
    }

    private static boolean isIn(int[][] ranges, int code) {
        for (int[] range : ranges) {
            if (range[0] <= code && code <= range[range.length - 1]) {
                return true;
            }
        }
        return false;
    }
}

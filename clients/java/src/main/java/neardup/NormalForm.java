package neardup;

import java.util.Arrays;

/** Unicode's normal forms of texts, by the tables of the specification. */
final class NormalForm {
    private static final UnicodeData DATA = UnicodeData.SHARED;
    private static final int SYLLABLES = 0xAC00;
    private static final int SYLLABLES_END = SYLLABLES + 11172;
    private static final int LEADS = 0x1100;
    private static final int VOWELS = 0x1161;
    private static final int TAILS = 0x11A7;

    private int[] codes;
    private int size;

    private NormalForm(int room) {
        codes = new int[room];
    }

    /** Returns the normal form of a profile, before case and digits are folded. */
    static int[] of(int[] text, Profile profile) {
        NormalForm form = new NormalForm(text.length + 16);
        if (!profile.unifies()) {
            form.decompose(text, text.length, false);
        } else {
            form.decompose(text, text.length, true);
            String unwanted = profile == Profile.LOOK_ALIKES ? "AD" : "A";
            int[] kept = Arrays.stream(form.codes, 0, form.size)
                    .filter(code -> unwanted.indexOf(DATA.kind(code)) < 0 && !profile.drops(code))
                    .toArray();
            form.size = 0;
            form.decompose(kept, kept.length, false);
        }
        form.compose();
        return Arrays.stream(form.codes, 0, form.size)
                .filter(code -> !profile.drops(code)).toArray();
    }

    private void decompose(int[] text, int length, boolean compatible) {
        for (int i = 0; i < length; i++) {
            split(text[i], compatible);
        }
        int start = 0;
        for (int end = 0; end <= size; end++) {
            if (end == size || DATA.combining(codes[end]) == 0) {
                sortMarks(start, end);
                start = end + 1;
            }
        }
    }

    private void split(int code, boolean compatible) {
        if (code >= SYLLABLES && code < SYLLABLES_END) {
            int place = code - SYLLABLES;
            append(LEADS + place / 588);
            append(VOWELS + place % 588 / 28);
            if (place % 28 != 0) {
                append(TAILS + place % 28);
            }
            return;
        }
        int[] parts = code < 0x80 ? null : DATA.canonical.get(code);
        if (parts == null && compatible) {
            parts = DATA.compatible.get(code);
        }
        if (parts == null) {
            append(code);
            return;
        }
        for (int part : parts) {
            split(part, compatible);
        }
    }

    /** Sorts a run of marks by their combining classes; of equal ones, the order stays. */
    private void sortMarks(int start, int end) {
        if (end - start > 1) {
            int[] sorted = Arrays.stream(codes, start, end).boxed()
                    .sorted(java.util.Comparator.comparing(DATA::combining))
                    .mapToInt(Integer::intValue).toArray();
            System.arraycopy(sorted, 0, codes, start, sorted.length);
        }
    }

    private void compose() {
        int kept = 0;
        int starter = -1;
        int before = -1; // the combining class of the last mark after the starter
        for (int i = 0; i < size; i++) {
            int code = codes[i];
            int combining = DATA.combining(code);
            int both = starter >= 0 && before < combining ? compose(codes[starter], code) : -1;
            if (both >= 0) {
                codes[starter] = both;
                continue;
            }
            if (combining == 0) {
                starter = kept;
                before = -1;
            } else {
                before = combining;
            }
            codes[kept++] = code;
        }
        size = kept;
    }

    private static int compose(int first, int second) {
        if (first >= LEADS && first < LEADS + 19 && second >= VOWELS && second < VOWELS + 21) {
            return SYLLABLES + ((first - LEADS) * 21 + second - VOWELS) * 28;
        }
        if (first >= SYLLABLES && first < SYLLABLES_END && (first - SYLLABLES) % 28 == 0
                && second > TAILS && second < TAILS + 28) {
            return first + second - TAILS;
        }
        return DATA.composed(first, second);
    }

    private void append(int code) {
        if (size == codes.length) {
            codes = Arrays.copyOf(codes, 2 * size);
        }
        codes[size++] = code;
    }
}

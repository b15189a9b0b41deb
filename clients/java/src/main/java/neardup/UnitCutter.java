package neardup;

import static neardup.CharacterTable.ALONE;
import static neardup.CharacterTable.DROPPED;
import static neardup.CharacterTable.MARK;
import static neardup.CharacterTable.OTHER;
import static neardup.CharacterTable.SPACE;
import static neardup.CharacterTable.WORD;

import java.util.Arrays;

/**
 * Cuts texts into units: words, characters or lines, as UTF-8. It is used for one text after
 * another, by one thread at a time; {@link #bytes} and {@link #ends} are those of the last one.
 */
final class UnitCutter {
    /** The units one after the other, and at least seven bytes after the last one. */
    byte[] bytes = new byte[8];
    /** Where each unit ends; it begins where the one before ends. */
    int[] ends = new int[2];

    private final Profile profile;
    private final Unit unit;
    private final CharacterTable table;
    /** What each ASCII character becomes in a word; 0 for those that separate words. */
    private final byte[] inWords = new byte[128];
    private char[] text = new char[0];
    private int length;
    private boolean settled;
    private int written;
    private int count;

    UnitCutter(Profile profile, Unit unit) {
        this.profile = profile;
        this.unit = unit;
        table = CharacterTable.of(profile);
        for (int code = 0; code < 128; code++) {
            int entry = table.entry(code);
            if (CharacterTable.kind(entry) == WORD) {
                inWords[code] = (byte) CharacterTable.folded(code, entry);
            }
        }
    }

    /**
     * Cuts a text.
     *
     * @param source the text
     * @return how many units it has; none if nothing of it is visible
     * @throws IllegalArgumentException if half of a surrogate pair stands alone in it
     */
    int cut(String source) {
        length = source.length();
        makeRoom();
        source.getChars(0, length, text, 0);
        settled = false;
        if (!cutUnits()) {
            int[] normal = NormalForm.of(codePoints(source), profile);
            String again = new String(normal, 0, normal.length);
            length = again.length();
            makeRoom();
            again.getChars(0, length, text, 0);
            settled = true;
            cutUnits();
        }
        return count;
    }

    /** Returns the code points that a profile compares: normal form, case, digits, look-alikes. */
    static int[] normalise(String text, Profile profile) {
        CharacterTable table = CharacterTable.of(profile);
        return Arrays.stream(NormalForm.of(codePoints(text), profile))
                .map(code -> CharacterTable.folded(code, table.entry(code))).toArray();
    }

    /** Returns how many characters there is room for, which is kept from one text to the next. */
    int room() {
        return text.length;
    }

    private static int[] codePoints(String text) {
        int[] codes = text.codePoints().toArray();
        for (int code : codes) {
            if (code >= Character.MIN_SURROGATE && code <= Character.MAX_SURROGATE) {
                throw loneSurrogate();
            }
        }
        return codes;
    }

    private static IllegalArgumentException loneSurrogate() {
        return new IllegalArgumentException("the text has half of a surrogate pair alone, which"
                + " no UTF-8 has: replace it, or drop it");
    }

    private void makeRoom() {
        if (text.length < length) {
            text = new char[length + length / 8];
            bytes = new byte[3 * text.length + 8];
            ends = new int[text.length + 2];
        }
    }

    /** Cuts the text into units; returns false where it turns out not to be in normal form. */
    private boolean cutUnits() {
        written = 0;
        count = 0;
        if (unit != Unit.WORD) {
            return squeeze(unit);
        }
        // A text without any word is one unit, of all that is visible.
        return cutWords() && (count > 0 || squeeze(null));
    }

    /**
     * Without branches for ASCII: the byte is always written, and kept if it is of a word; the end
     * of the word that is open is always noted, and counts if the word ends here.
     */
    private boolean cutWords() {
        int open = 0;
        int alone = 0;
        int before = 0;
        int write = 0;
        int words = 0;
        for (int at = 0; at < length; at++) {
            int code = text[at];
            if (code < 128) {
                byte kept = inWords[code];
                int within = -kept >>> 31;
                ends[words] = write;
                words += open & (within ^ 1 | alone);
                bytes[write] = kept;
                write += within;
                open = within;
                alone = 0;
                before = 0;
                continue;
            }
            if (Character.isSurrogate((char) code)) {
                code = pairAt(at++);
            }
            int entry = table.entry(code);
            if (!settled && (profile.unifies() || CharacterTable.isUnsettled(entry, before))) {
                return false;
            }
            before = CharacterTable.combining(entry);
            int kind = CharacterTable.kind(entry);
            if (kind == DROPPED || kind == MARK && open == 0) {
                continue;
            }
            if (kind != MARK && (kind != WORD || alone == 1)) {
                ends[words] = write;
                words += open;
                open = 0;
            }
            if (kind == OTHER || kind == SPACE) {
                alone = 0;
                continue;
            }
            if (kind != MARK) {
                alone = kind == ALONE ? 1 : 0;
            }
            write = append(CharacterTable.folded(code, entry), write);
            open = 1;
        }
        ends[words] = write;
        count = words + open;
        written = write;
        return true;
    }

    /**
     * Cuts the squeezed text, in which runs of white space are one space, none at the ends: into
     * characters, into lines, or not at all.
     */
    private boolean squeeze(Unit into) {
        written = 0;
        int begin = 0;
        int before = 0;
        boolean gap = false;
        for (int at = 0; at < length; at++) {
            int code = text[at];
            if (Character.isSurrogate((char) code)) {
                code = pairAt(at++);
            }
            int entry = table.entry(code);
            if (!settled && code >= 128
                    && (profile.unifies() || CharacterTable.isUnsettled(entry, before))) {
                return false;
            }
            before = CharacterTable.combining(entry);
            if (into == Unit.LINE && (code == '\n' || code == '\r')) {
                begin = endUnit(begin);
                gap = false;
                continue;
            }
            int kind = CharacterTable.kind(entry);
            if (kind == SPACE) {
                gap = written > begin;
            } else if (kind != DROPPED) {
                if (gap) {
                    bytes[written++] = ' ';
                    endCharacter(into);
                    gap = false;
                }
                written = append(CharacterTable.folded(code, entry), written);
                endCharacter(into);
            }
        }
        if (into != Unit.CHAR) {
            endUnit(begin);
        }
        return true;
    }

    private int endUnit(int begin) {
        if (written > begin) {
            ends[count++] = written;
        }
        return written;
    }

    private void endCharacter(Unit into) {
        if (into == Unit.CHAR) {
            ends[count++] = written;
        }
    }

    private int pairAt(int at) {
        if (Character.isHighSurrogate(text[at]) && at + 1 < length
                && Character.isLowSurrogate(text[at + 1])) {
            return Character.toCodePoint(text[at], text[at + 1]);
        }
        throw loneSurrogate();
    }

    /** Writes a character in UTF-8, and returns where the next one goes. */
    private int append(int code, int at) {
        if (code < 0x80) {
            bytes[at] = (byte) code;
            return at + 1;
        }
        if (code < 0x800) {
            bytes[at] = (byte) (0xC0 | code >> 6);
            bytes[at + 1] = (byte) (0x80 | code & 0x3F);
            return at + 2;
        }
        if (code < 0x10000) {
            bytes[at] = (byte) (0xE0 | code >> 12);
            bytes[at + 1] = (byte) (0x80 | code >> 6 & 0x3F);
            bytes[at + 2] = (byte) (0x80 | code & 0x3F);
            return at + 3;
        }
        bytes[at] = (byte) (0xF0 | code >> 18);
        bytes[at + 1] = (byte) (0x80 | code >> 12 & 0x3F);
        bytes[at + 2] = (byte) (0x80 | code >> 6 & 0x3F);
        bytes[at + 3] = (byte) (0x80 | code & 0x3F);
        return at + 4;
    }
}

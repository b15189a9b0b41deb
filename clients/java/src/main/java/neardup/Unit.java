package neardup;

/** What a shingle consists of. */
public enum Unit {
    /** Words; in scripts without spaces, characters. */
    WORD,
    /** Characters of the text with single spaces. */
    CHAR,
    /** Lines. */
    LINE;

    /** Returns the name that specifications have for it. */
    String label() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }
}

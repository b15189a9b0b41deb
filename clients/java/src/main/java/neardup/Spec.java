package neardup;

import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * The specification of sketches: everything that two of them must agree on to be compared. This
 * library makes MinHash of the family affine32, with units hashed by xxHash64, or by SipHash under
 * a key.
 *
 * @param profile how texts are normalised
 * @param unit what a shingle consists of
 * @param size how many units a shingle has, 1 to 1000
 * @param seed the seed of all hashes, 64 bits without a sign
 * @param slots how many slots a sketch has, 1 to 65536
 * @param bits how many bits of a slot are stored: 32, or 1, 2, 4, 8, 16
 * @param key the id of the secret key; empty without one
 */
public record Spec(Profile profile, Unit unit, int size, long seed, int slots, int bits,
        String key) {
    /** What can't be chosen; the first one that is wrong is named. */
    private static final List<Map.Entry<String, Object>> FIXED = List.of(
            Map.entry("version", 1L), Map.entry("unicode", UnicodeData.VERSION),
            Map.entry("sketch", "minhash"), Map.entry("family", "affine32"));
    private static final List<Integer> BITS = List.of(1, 2, 4, 8, 16, 32);

    /** What neardup does unless it is told otherwise: shingles of five words, 128 slots. */
    public static final Spec DEFAULT = new Spec(Profile.STANDARD, Unit.WORD, 5, 0, 128, 32, "");

    public Spec {
        require(size >= 1 && size <= 1000, "shingle size " + size + ": use 1 to 1000");
        require(slots >= 1 && slots <= 65536, slots + " slots: use 1 to 65536");
        require(BITS.contains(bits), bits + " bits of a slot: use one of " + BITS);
        require(key.matches("([0-9a-f]{16})?"), "the id of a key has 16 hexadecimal digits");
    }

    /**
     * Returns the default specification with another shingle.
     *
     * @param shingle unit and size: {@code word:5}, {@code char:24}, {@code line:1}
     */
    public static Spec of(String shingle) {
        int colon = shingle.indexOf(':');
        String size = shingle.substring(colon + 1);
        require(colon > 0 && size.matches("[0-9]{1,9}"),
                "shingle " + shingle + " is not UNIT:SIZE: write word:5, char:24 or line:1");
        return new Spec(Profile.STANDARD, unit(shingle.substring(0, colon)),
                Integer.parseInt(size), 0, 128, 32, "");
    }

    /** Returns this specification with another profile. */
    public Spec withProfile(Profile profile) {
        return new Spec(profile, unit, size, seed, slots, bits, key);
    }

    /** Returns this specification with another seed, 64 bits without a sign. */
    public Spec withSeed(long seed) {
        return new Spec(profile, unit, size, seed, slots, bits, key);
    }

    /** Returns this specification with another number of slots. */
    public Spec withSlots(int slots) {
        return new Spec(profile, unit, size, seed, slots, bits, key);
    }

    /** Returns this specification with fewer bits of each slot. */
    public Spec withBits(int bits) {
        return new Spec(profile, unit, size, seed, slots, bits, key);
    }

    /** Returns this specification with the hash of a secret key. */
    public Spec withKey(SecretKey key) {
        return new Spec(profile, unit, size, seed, slots, bits, key.id());
    }

    /**
     * Returns the specification of a JSON object, as neardup writes it.
     *
     * @param json the canonical form, or the same fields in another order
     * @throws IllegalArgumentException if this library can't make such sketches
     */
    public static Spec parse(String json) {
        return of(Json.object(Json.parse(json), "a specification"));
    }

    static Spec of(Map<String, Object> fields) {
        Map<String, Object> left = new TreeMap<>(fields);
        for (Map.Entry<String, Object> fixed : FIXED) {
            Object found = left.remove(fixed.getKey());
            require(fixed.getValue().equals(found), fixed.getKey() + " is " + found
                    + ": this library makes " + fixed.getValue());
        }
        String key = left.containsKey("key") ? text(left, "key") : "";
        String hash = key.isEmpty() ? "xxh64" : "siphash";
        Object given = left.remove("hash");
        require(hash.equals(given), "hash is " + given
                + ": this library has xxh64, and siphash with a key");
        Spec spec = new Spec(Profile.of(text(left, "profile")), unit(text(left, "unit")),
                whole(left, "size"), Json.unsigned(left.remove("seed"), "seed"),
                whole(left, "slots"), whole(left, "bits"), key);
        require(left.isEmpty(), left.keySet() + ": this library makes sketches without it");
        return spec;
    }

    /** Returns the JSON whose digest is the fingerprint: sorted keys, no spaces. */
    public String canonical() {
        return String.format(Locale.ROOT, "{\"bits\":%d,\"family\":\"affine32\",%s,"
                + "\"profile\":\"%s\",\"seed\":%s,\"size\":%d,\"sketch\":\"minhash\",\"slots\":%d,"
                + "\"unicode\":\"%s\",\"unit\":\"%s\",\"version\":1}", bits,
                key.isEmpty() ? "\"hash\":\"xxh64\""
                        : "\"hash\":\"siphash\",\"key\":\"" + key + '"',
                profile.label(), Long.toUnsignedString(seed), size, slots, UnicodeData.VERSION,
                unit.label());
    }

    /** Returns 32 hexadecimal digits, equal if and only if the specifications are. */
    public String fingerprint() {
        byte[] text = canonical().getBytes(StandardCharsets.US_ASCII);
        return HexFormat.of().formatHex(Blake2b.digest(text, 16));
    }

    /** Throws unless both specifications are equal. */
    void requireSame(Spec other) {
        require(equals(other), "sketches of other specifications can't be compared: "
                + canonical() + " against " + other.canonical() + ": make both with the same one");
    }

    private static Unit unit(String name) {
        for (Unit unit : Unit.values()) {
            if (unit.label().equals(name)) {
                return unit;
            }
        }
        throw new IllegalArgumentException(
                "shingle unit " + name + ": this library has word, char and line");
    }

    private static String text(Map<String, Object> fields, String name) {
        Object value = fields.remove(name);
        require(value instanceof String, name + " of a specification is " + value);
        return (String) value;
    }

    private static int whole(Map<String, Object> fields, String name) {
        Object value = fields.remove(name);
        require(value instanceof Long number && number == number.intValue(),
                name + " of a specification is " + value);
        return ((Long) value).intValue();
    }

    private static void require(boolean right, String message) {
        if (!right) {
            throw new IllegalArgumentException(message);
        }
    }
}

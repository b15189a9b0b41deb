package neardup;

import java.util.Map;

/**
 * A document to add to an index.
 *
 * @param id its id; null for a random one
 * @param text its text, which stays here
 * @param metadata what is stored with it, as JSON: strings, numbers, booleans, lists and maps; or
 *     null
 * @param within the group whose documents it is compared with, if the index has groups; or null
 */
public record Document(String id, String text, Map<String, ?> metadata, String within) {
    /** Makes a document without metadata and group. */
    public Document(String id, String text) {
        this(id, text, null, null);
    }
}

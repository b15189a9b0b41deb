package neardup;

import java.util.Map;

/**
 * What the service answers about a text or a document.
 *
 * @param id the id of the document; null in an answer to a check
 * @param status {@code new}, {@code duplicate} or {@code rejected}
 * @param duplicateOf the id of the kept document that it is a copy of, or null
 * @param similarity the similarity to that document, or null
 * @param exact false if the similarity was estimated from signatures
 * @param cluster the number of its cluster, or null
 * @param reason why it was rejected, or null
 * @param again whether it was stored before, so that nothing was added
 */
public record Answer(String id, String status, String duplicateOf, Double similarity,
        boolean exact, Long cluster, String reason, boolean again) {

    /** Returns whether it is a copy of a kept document. */
    public boolean isCopy() {
        return status.equals("duplicate");
    }

    /** Returns what the service answers to a text of which nothing is visible. */
    static Answer ofEmpty(String id) {
        return new Answer(id, "rejected", null, null, true, null, "empty", false);
    }

    static Answer of(Map<String, Object> fields) {
        Number similarity = (Number) fields.get("similarity");
        return new Answer((String) fields.get("id"), (String) fields.get("status"),
                (String) fields.get("duplicate_of"),
                similarity == null ? null : similarity.doubleValue(),
                Boolean.TRUE.equals(fields.get("exact")), (Long) fields.get("cluster"),
                (String) fields.get("reason"), Boolean.TRUE.equals(fields.get("again")));
    }
}

package neardup;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A client of {@code neardup serve} that sends signatures: texts are sketched here and never leave.
 * Any thread may use it.
 */
public final class ServiceClient {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final HttpClient http = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1).connectTimeout(PATIENCE).build();
    private final String address;
    private final String key;
    private final Sketcher sketcher;

    /**
     * Asks a service for its specification, by which texts will be sketched.
     *
     * @param address where it listens: {@code http://127.0.0.1:8080}
     * @param key an API key with the scopes read and write; null for a service without keys
     * @throws ServiceException if the service refuses
     * @throws IllegalArgumentException if this library can't make such sketches
     */
    public ServiceClient(String address, String key) throws IOException, InterruptedException {
        this(address, key, null);
    }

    /**
     * The same, of a service whose index has a secret key.
     *
     * @param address where it listens
     * @param key an API key; null for a service without keys
     * @param secret the key of the index, which is not sent; null if it has none
     */
    public ServiceClient(String address, String key, SecretKey secret)
            throws IOException, InterruptedException {
        this.address = address.replaceAll("/+$", "");
        this.key = key;
        Map<String, Object> stats = send("GET", "/v1/stats", BodyPublishers.noBody());
        sketcher = new Sketcher(
                Spec.of(Json.object(stats.get("spec"), "the specification")), secret);
        if (!sketcher.spec().fingerprint().equals(stats.get("fingerprint"))) {
            throw new IllegalArgumentException("the service has the specification "
                    + stats.get("fingerprint") + ", not " + sketcher.spec().fingerprint()
                    + ": use the version of this library that belongs to it");
        }
    }

    /** Returns what sketches texts for this service. */
    public Sketcher sketcher() {
        return sketcher;
    }

    /**
     * Asks whether a text is a copy of a document in the index. Nothing is added.
     *
     * @param text the text, which stays here
     */
    public Answer check(String text) throws IOException, InterruptedException {
        return check(text, null);
    }

    /**
     * Asks whether a text is a copy of a document in the index. Nothing is added.
     *
     * @param text the text, which stays here
     * @param within its group, if the index has groups; or null
     */
    public Answer check(String text, String within) throws IOException, InterruptedException {
        Optional<Sketch> sketch = sketcher.sketch(text);
        if (sketch.isEmpty()) {
            return Answer.ofEmpty(null);
        }
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("signature", signature(sketch.get()));
        if (within != null) {
            body.put("within", within);
        }
        return Answer.of(post("/v1/check", body));
    }

    /**
     * Adds a document, and answers whether it is a copy.
     *
     * @param document the document
     */
    public Answer add(Document document) throws IOException, InterruptedException {
        return add(List.of(document)).get(0);
    }

    /**
     * Adds documents in order, in one commit. A document without anything visible is rejected, and
     * one whose id is taken; the others are added.
     *
     * @param documents the documents, at most as many as the service takes, by default 1000
     * @return an answer for each document
     */
    public List<Answer> add(List<Document> documents) throws IOException, InterruptedException {
        List<Answer> answers = new ArrayList<>();
        List<Integer> sent = new ArrayList<>();
        List<Map<String, Object>> bodies = new ArrayList<>();
        for (Document document : documents) {
            Optional<Sketch> sketch = sketcher.sketch(document.text());
            if (sketch.isPresent()) {
                sent.add(answers.size());
                bodies.add(fields(document, sketch.get()));
            }
            answers.add(Answer.ofEmpty(document.id()));
        }
        if (!sent.isEmpty()) {
            Object got = post("/v1/documents", Map.of("documents", bodies)).get("answers");
            int next = 0;
            for (Object answer : (List<?>) got) {
                answers.set(sent.get(next++), Answer.of(Json.object(answer, "an answer")));
            }
        }
        return answers;
    }

    /**
     * Removes a document.
     *
     * @param id its id
     * @return whether there was such a document
     */
    public boolean remove(String id) throws IOException, InterruptedException {
        String place = URLEncoder.encode(id, StandardCharsets.UTF_8).replace("+", "%20");
        try {
            send("DELETE", "/v1/documents/" + place, BodyPublishers.noBody());
            return true;
        } catch (ServiceException refused) {
            if (refused.error().equals("not_found")) {
                return false;
            }
            throw refused;
        }
    }

    private static Map<String, Object> fields(Document document, Sketch sketch) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("signature", signature(sketch));
        if (document.id() != null) {
            fields.put("id", document.id());
        }
        if (document.metadata() != null) {
            fields.put("metadata", document.metadata());
        }
        if (document.within() != null) {
            fields.put("within", document.within());
        }
        return fields;
    }

    private static Map<String, Object> signature(Sketch sketch) {
        return Map.of("fingerprint", sketch.spec().fingerprint(), "slots", sketch.base64(),
                "content", sketch.content().orElseThrow());
    }

    private Map<String, Object> post(String path, Map<String, Object> body)
            throws IOException, InterruptedException {
        return send("POST", path, BodyPublishers.ofString(Json.write(body)));
    }

    private Map<String, Object> send(String method, String path, BodyPublisher body)
            throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(address + path))
                .timeout(PATIENCE).header("Content-Type", "application/json").method(method, body);
        if (key != null) {
            request.header("Authorization", "Bearer " + key);
        }
        HttpResponse<String> response = http.send(request.build(), BodyHandlers.ofString());
        int status = response.statusCode();
        if (status == 204) {
            return Map.of();
        }
        Map<String, Object> answer;
        try {
            answer = Json.object(Json.parse(response.body()), "the answer");
        } catch (IllegalArgumentException notOurs) {
            throw new ServiceException(status, "", "the answer with status " + status
                    + " is not neardup's: is neardup serve at " + address + "?", "", null);
        }
        if (status != 200) {
            throw new ServiceException(status, String.valueOf(answer.get("error")),
                    String.valueOf(answer.get("message")),
                    String.valueOf(answer.getOrDefault("request_id", "")),
                    response.headers().firstValue("Retry-After")
                            .filter(seconds -> seconds.matches("[0-9]{1,9}"))
                            .map(Long::valueOf).map(Duration::ofSeconds).orElse(null));
        }
        return answer;
    }
}

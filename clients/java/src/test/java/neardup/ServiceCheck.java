package neardup;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Asks a service: {@code java neardup.ServiceCheck ADDRESS KEY [SECRET]} reads requests from
 * standard input, a JSON object a line, and prints an answer for each.
 */
public final class ServiceCheck {
    public static void main(String[] arguments) throws Exception {
        String key = arguments[1].isEmpty() ? null : arguments[1];
        BufferedReader lines = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ServiceClient client;
        try {
            client = new ServiceClient(arguments[0], key,
                    arguments.length == 3 ? SecretKey.parse(arguments[2]) : null);
        } catch (IOException | IllegalArgumentException refused) {
            System.out.println(Json.write(describe(refused)));
            return;
        }
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Object answer;
            try {
                answer = answer(client, Json.object(Json.parse(line), "a request"));
            } catch (ServiceException | IllegalArgumentException refused) {
                answer = describe(refused);
            }
            System.out.println(Json.write(answer));
        }
    }

    private static Object answer(ServiceClient client, Map<String, Object> request)
            throws Exception {
        if (request.containsKey("check")) {
            return fields(client.check(
                    (String) request.get("check"), (String) request.get("within")));
        }
        if (request.containsKey("remove")) {
            return client.remove((String) request.get("remove"));
        }
        List<Document> documents = new ArrayList<>();
        for (Object each : (List<?>) request.get("add")) {
            Map<String, Object> given = Json.object(each, "a document");
            Object metadata = given.get("metadata");
            documents.add(new Document((String) given.get("id"), (String) given.get("text"),
                    metadata == null ? null : Json.object(metadata, "metadata"),
                    (String) given.get("within")));
        }
        return client.add(documents).stream().map(ServiceCheck::fields).toList();
    }

    private static Map<String, Object> fields(Answer answer) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("id", answer.id());
        fields.put("status", answer.status());
        fields.put("duplicate_of", answer.duplicateOf());
        fields.put("similarity", answer.similarity());
        fields.put("exact", answer.exact());
        fields.put("cluster", answer.cluster());
        fields.put("reason", answer.reason());
        fields.put("again", answer.again());
        return fields;
    }

    private static Map<String, Object> describe(Exception refused) {
        Map<String, Object> fields = new LinkedHashMap<>();
        if (refused instanceof ServiceException service) {
            fields.put("status", service.status());
            fields.put("error", service.error());
            service.retryAfter().ifPresent(time -> fields.put("seconds", time.toSeconds()));
        }
        fields.put("message", refused.getMessage());
        return fields;
    }
}

package neardup;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON as maps, lists, strings, booleans, null and numbers: {@code Long} if it is whole and has
 * room, else {@code BigInteger}; {@code Double} with a fraction or an exponent.
 */
final class Json {
    private static final int DEPTH = 100;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Returns the value of a JSON text; anything else throws {@code IllegalArgumentException}. */
    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        if (json.at < text.length()) {
            throw json.wrong("something after the end");
        }
        return value;
    }

    /** Returns a value as an object. */
    @SuppressWarnings("unchecked") // keys are strings, and values are only looked at by type
    static Map<String, Object> object(Object value, String what) {
        if (value instanceof Map) {
            return (Map<String, Object>) value;
        }
        throw new IllegalArgumentException(what + " is not a JSON object: " + value);
    }

    /** Returns a whole number from 0 to 2^64 - 1. */
    static long unsigned(Object value, String what) {
        if (value instanceof Long number && number >= 0) {
            return number;
        }
        if (value instanceof BigInteger number && number.signum() > 0 && number.bitLength() <= 64) {
            return number.longValue();
        }
        throw new IllegalArgumentException(what + " is not a number of 64 bits: " + value);
    }

    /** Returns a value as JSON, in ASCII. */
    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof String string) {
            quote(string, out);
        } else if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                quote((String) entry.getKey(), out);
                write(entry.getValue(), out.append(':'));
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> list) {
            String separator = "";
            out.append('[');
            for (Object each : list) {
                write(each, out.append(separator));
                separator = ",";
            }
            out.append(']');
        } else if (value == null || value instanceof Boolean || value instanceof Number) {
            if (value instanceof Double number && !Double.isFinite(number)) {
                throw new IllegalArgumentException("JSON has no " + number);
            }
            out.append(value);
        } else {
            throw new IllegalArgumentException("JSON has no " + value.getClass().getName());
        }
    }

    private static void quote(String string, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < string.length(); i++) {
            char c = string.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    private Object value(int depth) {
        if (depth > DEPTH) {
            throw wrong("nested too deeply");
        }
        char first = peek();
        Object value = switch (first) {
            case '{' -> members(depth);
            case '[' -> elements(depth);
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
        skipBlanks();
        return value;
    }

    private Map<String, Object> members(int depth) {
        Map<String, Object> map = new LinkedHashMap<>();
        at++;
        if (peek() == '}') {
            at++;
            return map;
        }
        while (true) {
            if (peek() != '"') {
                throw wrong("a name expected");
            }
            String name = string();
            expect(':');
            map.put(name, value(depth + 1));
            if (isLast('}')) {
                return map;
            }
        }
    }

    private List<Object> elements(int depth) {
        List<Object> list = new ArrayList<>();
        at++;
        if (peek() == ']') {
            at++;
            return list;
        }
        while (true) {
            list.add(value(depth + 1));
            if (isLast(']')) {
                return list;
            }
        }
    }

    private boolean isLast(char end) {
        char next = peek();
        if (next != ',' && next != end) {
            throw wrong(", or " + end + " expected");
        }
        at++;
        return next == end;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        at++;
        while (true) {
            char c = next();
            if (c == '"') {
                return out.toString();
            }
            if (c < ' ') {
                throw wrong("a control character in a string");
            }
            out.append(c == '\\' ? escaped() : c);
        }
    }

    private char escaped() {
        char c = next();
        switch (c) {
            case '"', '\\', '/':
                return c;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                String digits = text.substring(at, Math.min(at + 4, text.length()));
                if (!digits.matches("[0-9a-fA-F]{4}")) {
                    throw wrong("four hexadecimal digits expected");
                }
                at += 4;
                return (char) Integer.parseInt(digits, 16);
            default:
                throw wrong("no such escape");
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong("a value expected");
        }
        at += word.length();
        return value;
    }

    private Number number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(start, at);
        if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
            throw wrong("a value expected");
        }
        if (digits.matches("-?[0-9]+")) {
            BigInteger whole = new BigInteger(digits);
            return whole.bitLength() < 64 ? (Number) whole.longValue() : whole;
        }
        return Double.parseDouble(digits);
    }

    private void expect(char wanted) {
        if (peek() != wanted) {
            throw wrong(wanted + " expected");
        }
        at++;
    }

    private char peek() {
        skipBlanks();
        if (at >= text.length()) {
            throw wrong("it ends too early");
        }
        return text.charAt(at);
    }

    private char next() {
        if (at >= text.length()) {
            throw wrong("it ends too early");
        }
        return text.charAt(at++);
    }

    private void skipBlanks() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private IllegalArgumentException wrong(String why) {
        return new IllegalArgumentException("not JSON: " + why + ", at character " + at);
    }
}

package peer;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;

/** Typed parameter values as commands write them: {@code TYPE:VALUE}. */
final class Value {
    private Value() {}

    /**
     * The boxed value, whose class decides its type on the wire.
     *
     * <p>In {@code string} and {@code char} values {@code %XX} stands for a byte of UTF-8, so that a
     * value can hold spaces. {@code char} is here because Sentinel's client leaves such values out.
     *
     * @throws IllegalArgumentException for an unknown type or a text that is no value of it
     */
    static Object parse(String text) {
        int colon = text.indexOf(':');
        if (colon < 0) {
            throw new IllegalArgumentException("value " + text + " is not TYPE:VALUE");
        }
        String value = text.substring(colon + 1);
        return switch (text.substring(0, colon)) {
            case "int" -> Integer.valueOf(value);
            case "long" -> Long.valueOf(value);
            case "byte" -> Byte.valueOf(value);
            case "short" -> Short.valueOf(value);
            case "double" -> Double.valueOf(value);
            case "float" -> Float.valueOf(value);
            case "boolean" -> bool(value);
            case "string" -> decoded(value);
            case "char" -> character(decoded(value));
            default -> throw new IllegalArgumentException("unknown type in " + text
                + ": int, long, byte, short, double, float, boolean, string or char");
        };
    }

    /** {@code true} or {@code false}, and nothing else, unlike {@link Boolean#parseBoolean}. */
    static boolean bool(String text) {
        return switch (text) {
            case "true" -> true;
            case "false" -> false;
            default -> throw new IllegalArgumentException(text + " is neither true nor false");
        };
    }

    private static String decoded(String text) {
        // The decoder is one for forms, where a plus sign is a space.
        return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    private static Character character(String text) {
        if (text.length() != 1) {
            throw new IllegalArgumentException("char value of " + text.length() + " characters");
        }
        return text.charAt(0);
    }
}

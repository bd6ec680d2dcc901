package peer;

/** The arguments of one command: words between white space. */
record Words(String[] words) {
    /**
     * Splits the text behind a command's name.
     *
     * @throws IllegalArgumentException with the usage, for too few or too many words
     */
    static Words of(String text, String usage, int min, int max) {
        String[] words = text.isBlank() ? new String[0] : text.strip().split("\\s+");
        if (words.length < min || words.length > max) {
            throw new IllegalArgumentException("arguments are " + usage);
        }
        return new Words(words);
    }

    int count() {
        return words.length;
    }

    String text(int index) {
        return words[index];
    }

    int integer(int index) {
        return Integer.parseInt(words[index]);
    }

    long longInteger(int index) {
        return Long.parseLong(words[index]);
    }
}

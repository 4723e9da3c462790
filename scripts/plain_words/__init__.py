"""Count the sentences of this project that are hard to read at the first try, against a budget that may only fall."""

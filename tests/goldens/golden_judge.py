"""A judge that the run `judged` asks."""


def grade(question: bytes) -> bytes:
    """Return the length of the question as the grade."""
    return str(len(question) % 7).encode()

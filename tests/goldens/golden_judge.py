"""A judge that the run `judged` asks."""


def grade(question: bytes) -> bytes:
    return str(len(question) % 7).encode()

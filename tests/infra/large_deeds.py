"""A handler whose module holds 200 MiB."""

_HELD = bytearray(200 << 20)


def handler(event, context):
    return "awake"

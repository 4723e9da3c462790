"""A function with tasks that ask the host of their process, and answer with the outcomes."""

from marless.functions.encoding import MessagePackDecoder, to_message_pack
from marless.functions.resources.port import RESOURCES, ResourceCall

_DECODER = MessagePackDecoder[tuple[str, list[ResourceCall]]](tuple[str, list[ResourceCall]])


def handle(body, blobs):
    return to_message_pack(RESOURCES.host.ask(*_DECODER.decode(body)))

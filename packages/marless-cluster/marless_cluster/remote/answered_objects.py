"""Answers to questions of workers for objects, from the storage of their run."""

from marless.functions.errors import KeyTaken, StorageFault
from marless.functions.storage_port import Blobs
from marless.infra.local.pipe_messages import Get, ObjectStored, Put, frame
from marless.infra.local.processes.remote_objects import ERRORS, refuse_too_large


def is_stored(storage: Blobs, message: Put, body: bytes) -> bool:
    """Store an object while its task continues. Return whether that was possible."""
    try:
        storage.put(message.key, body)
    except (KeyTaken, StorageFault, ValueError):
        return False
    return True


def answer_with(storage: Blobs, message: Get | Put, body: bytes) -> bytes:
    """Return the frame that answers a question for an object, from the storage of the run."""
    try:
        if isinstance(message, Get):
            body = storage.get(message.key, message.size)
            refuse_too_large(message.key, len(body))
            return frame(ObjectStored(message.number, message.token), body)
        storage.put(message.key, body)
    except tuple(ERRORS.values()) as error:
        detail = str(error.args[0]) if error.args else ""
        return frame(ObjectStored(message.number, message.token, type(error).__name__, detail))
    return frame(ObjectStored(message.number, message.token))

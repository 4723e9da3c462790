"""TLS between driver and workers."""

import ssl
from pathlib import Path

from marless.functions.system_errors import explain
from marless_cluster.remote.faults import DialInError


def of_driver(certificate: Path, key: Path) -> ssl.SSLContext:
    """The driver shows this certificate. Raises `DialInError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError:
        raise DialInError(f"{certificate} and {key} are no certificate in PEM format with its key") from None
    except OSError as error:
        raise DialInError(f"cannot read {certificate} or {key}: {explain(error)}") from None
    return context


def fault_of_peer(error: ssl.SSLError | None) -> str:
    """Return the reason why the encryption of a worker's connection failed. The `error` is None if the worker left."""
    words = ((error and error.reason) or "it has left").lower().replace("_", " ")
    if error is None or "certificate" in words or "unknown ca" in words:
        return f"it does not take this driver's certificate ({words.rpartition('alert ')[2]}); it says why itself"
    return f"it does not encrypt as this driver does ({words})"


def of_worker(authority: Path) -> ssl.SSLContext:
    """Return a context of a worker that trusts a driver with this authority's certificate for its host. Raises
    `DialInError`."""
    try:
        context = ssl.create_default_context(cafile=str(authority))
    except ssl.SSLError:
        raise DialInError(f"{authority} is no certificate in PEM format") from None
    except OSError as error:
        raise DialInError(f"cannot read {authority}: {explain(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context

"""TLS between driver and workers."""

import ssl
from pathlib import Path

from functions.system_errors import explain
from infra.remote.faults import DialInError


def of_driver(certificate: Path, key: Path) -> ssl.SSLContext:
    """The driver shows this certificate; raises `DialInError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError:
        raise DialInError(f"{certificate} and {key} are no certificate in PEM format with its key") from None
    except OSError as error:
        raise DialInError(f"cannot read {certificate} or {key}: {explain(error)}") from None
    return context


def of_worker(authority: Path) -> ssl.SSLContext:
    """The worker trusts a driver whose certificate this authority has signed, for its host; raises `DialInError`."""
    try:
        context = ssl.create_default_context(cafile=str(authority))
    except ssl.SSLError:
        raise DialInError(f"{authority} is no certificate in PEM format") from None
    except OSError as error:
        raise DialInError(f"cannot read {authority}: {explain(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context

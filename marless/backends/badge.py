"""What the bytes of a run depend on, as drivers and workers of other machines compare it."""

from importlib.metadata import version

from infra.remote.handshake import Badge
from marless.reports import provenance


def badge() -> Badge:
    """That of this interpreter on this machine."""
    program = f"marless {version('marless')} (code {provenance.code_sha256()[:12]})"
    return Badge(f"{program}, {provenance.libraries()}", provenance.machine())

"""Which program made a run: a hash over its source, and the commit where there is one."""

import hashlib
import subprocess
from pathlib import Path

PACKAGES = ("functions", "coordinator", "infra")
ROOT = Path(__file__).resolve().parent.parent


def code_sha256() -> str:
    """A hash over every source and price file of the program, names included."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in (".py", ".toml"):
                digest.update(f"{path.relative_to(ROOT)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def commit() -> str | None:
    """The commit that is checked out where the program lies, `+` behind it when files differ; None without git."""
    described = _git("rev-parse", "HEAD")
    if described is None or _git("rev-parse", "--show-toplevel") != str(ROOT):
        return None
    return described + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None

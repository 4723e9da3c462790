"""Owners: the people who share a server, with their weights, quotas, rights and tokens."""

import hashlib
import hmac
import os
import secrets
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from marless.coordinator.errors import UserError
from marless.functions.errors import StorageFault
from marless.runs.folder import now
from marless.runs.run_store import require_name
from marless_server.store.database import Database, fetch

_KEY_FILE, _KEY_BYTES = "key", 32
_SECRET_BYTES, _ID_BYTES = 32, 4
_PREFIX = "marless"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A person, or a team.

    Attributes:
        weight: share of the pool, in relation to the weights of other owners
        at_once: number of runs that train at once. None: no limit
        slot_seconds: seconds that slots serve the owner's tasks, per day (UTC). None: no limit
        dollars: dollars on the bills of the owner's runs, per day (UTC). None: no limit
        disk_gb: size of the owner's runs, in GB (10^9 bytes). None: no limit
        keep_days: days until a run that is over is deleted, unless its owner keeps it. None: never
        code: whether configurations may name code, programs, services, loggers and files
        admin: whether the owner may change all owners in the browser
    """

    name: str
    weight: float = 1.0
    at_once: int | None = None
    slot_seconds: float | None = None
    dollars: float | None = None
    disk_gb: float | None = None
    keep_days: float | None = None
    code: bool = False
    admin: bool = False
    created_at: str = ""

    @property
    def rights(self) -> list[str]:
        """The names of the owner's rights."""
        return [name for name in RIGHTS if getattr(self, name)]


LIMITS = {"weight": 1e6, "at_once": 1e6, "slot_seconds": 1e9, "dollars": 1e9, "disk_gb": 1e9, "keep_days": 1e5}
"""The attributes of an owner that are numbers above 0, and their largest values."""


RIGHTS = ("code", "admin")
"""The attributes of an owner that are rights."""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token of an owner: its public id, and when it was made and revoked ('' for never)."""

    id: str
    owner: str
    digest: bytes
    created_at: str
    revoked: str


class Owners:
    """The owners of a server. The file `key` in `folder` holds the key of the tokens' hashes."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database, self._key = database, _key(folder / _KEY_FILE)

    def all(self) -> dict[str, Owner]:
        """Return all owners by name."""
        return {owner.name: owner for owner in self._database.rows(Owner, "SELECT * FROM owners ORDER BY name")}

    def add(self, owner: Owner) -> None:
        """Store a new owner. Raises `UserError` for a bad name or limit, and for a name that exists."""
        require_name(owner.name, "owner")
        _require_limits(owner)

        def _insert(connection: sqlite3.Connection) -> None:
            if fetch(connection, Owner, "SELECT * FROM owners WHERE name = ?", [owner.name]):
                raise UserError(
                    f"there is an owner {owner.name} already. Change it with: marless serve owner change {owner.name}"
                )
            _store(connection, msgspec.structs.replace(owner, created_at=now()))

        self._database.write(_insert)

    def change(self, owner: Owner) -> None:
        """Replace the weight, quotas and rights of an owner. Raises `UserError` for a bad limit."""
        _require_limits(owner)
        self._database.write(lambda connection: _store(connection, owner))

    def remove(self, name: str) -> None:
        """Remove an owner without runs, with all tokens. The audit and the usage stay. Raises `UserError`."""

        def _delete(connection: sqlite3.Connection) -> None:
            if connection.execute("SELECT COUNT(*) FROM runs WHERE owner = ?", [name]).fetchone()[0]:
                raise UserError(f"{name} has runs. Stop them, and delete them first")
            connection.execute("DELETE FROM tokens WHERE owner = ?", [name])
            connection.execute("DELETE FROM owners WHERE name = ?", [name])

        self._database.write(_delete)

    def new_token(self, name: str) -> str:
        """Make a token for an owner, and return its text. Only its hash is stored. Raises `UserError`."""
        if name not in self.all():
            raise UserError(f"there is no owner {name}. Add one with: marless serve owner add {name}")
        token_id, secret = secrets.token_hex(_ID_BYTES), secrets.token_hex(_SECRET_BYTES)
        row = (token_id, name, self._digest(token_id, secret), now(), "")
        self._database.write(lambda connection: connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?)", row))
        return f"{_PREFIX}-{token_id}-{secret}"

    def tokens(self, name: str) -> list[Token]:
        """Return the tokens of an owner, the oldest first."""
        return self._database.rows(Token, "SELECT * FROM tokens WHERE owner = ? ORDER BY created_at, id", [name])

    def revoke(self, token_id: str) -> None:
        """Refuse a token from now on. Raises `UserError` if there is no token with this id."""

        def _update(connection: sqlite3.Connection) -> None:
            query = "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked = ''"
            if not connection.execute(query, (now(), token_id)).rowcount:
                raise UserError(f"there is no valid token {token_id}. List them with: marless serve owner tokens NAME")

        self._database.write(_update)

    def holder(self, text: str) -> tuple[Owner, str] | None:
        """Return the owner of a token and the token's id. None for a token that is wrong or was revoked."""
        prefix, _, rest = text.partition("-")
        token_id, _, secret = rest.partition("-")
        query = "SELECT * FROM tokens WHERE id = ?"
        tokens = self._database.rows(Token, query, [token_id]) if token_id.isascii() else []
        # A digest of the same length is compared for unknown ids too, so that the time of an answer tells nothing.
        digest = tokens[0].digest if tokens else bytes(hashlib.sha256().digest_size)
        is_right = hmac.compare_digest(self._digest(token_id, secret), digest)
        if not tokens or not is_right or prefix != _PREFIX or tokens[0].revoked:
            return None
        owners = self._database.rows(Owner, "SELECT * FROM owners WHERE name = ?", [tokens[0].owner])
        return (owners[0], token_id) if owners else None

    def stamps(self, token_id: str) -> list[str]:
        """Return the stamps of the forms of a token's holder: of today (UTC), and of yesterday."""
        today = datetime.now(UTC).date()
        days = [today, today - timedelta(days=1)]
        return [hmac.new(self._key, f"form-{token_id}-{day}".encode(), hashlib.sha256).hexdigest() for day in days]

    def _digest(self, token_id: str, secret: str) -> bytes:
        return hmac.digest(self._key, f"{token_id}-{secret}".encode(errors="replace"), hashlib.sha256)


def _require_limits(owner: Owner) -> None:
    for name, most in LIMITS.items():
        value = getattr(owner, name)
        if value is not None and not 0 < value <= most:
            raise UserError(f"{name}: {value:g} is no number above 0, and at most {most:g}")


def _store(connection: sqlite3.Connection, owner: Owner) -> None:
    marks = ", ".join("?" * len(Owner.__struct_fields__))
    columns = ", ".join(Owner.__struct_fields__)
    changes = ", ".join(f"{name} = excluded.{name}" for name in Owner.__struct_fields__[1:])
    query = f"INSERT INTO owners ({columns}) VALUES ({marks}) ON CONFLICT (name) DO UPDATE SET {changes}"
    connection.execute(query, msgspec.structs.astuple(owner))


def _key(path: Path) -> bytes:
    """Return the key of the file, which is made where there is none. Raises `StorageFault`."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise StorageFault(f"{path} does not hold {_KEY_BYTES} bytes; restore it from a copy") from None
        return key
    with os.fdopen(descriptor, "wb") as file:
        file.write(key := secrets.token_bytes(_KEY_BYTES))
    return key

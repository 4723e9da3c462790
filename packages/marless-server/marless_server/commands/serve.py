"""marless serve: shares this machine between several people. Their runs train side by side on one pool of workers."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from marless.cli.arguments import count, number
from marless.coordinator.errors import FINISHED, UserError
from marless.infra.local.available_cores import cores
from marless.output import note, say
from marless.program import program_name
from marless.reports.text import table
from marless.signals import Signals
from marless_server.pool.deletion import delete_all
from marless_server.serving import Settings, serve, stored
from marless_server.store.database import FILE
from marless_server.store.owners import LIMITS, RIGHTS, Owner, Owners
from marless_server.store.runs import Runs

EXAMPLES = """examples:
  marless serve owner add ana            a person, or a team
  marless serve owner token ana          prints a token once, for ana
  marless serve                          serves at 127.0.0.1:8765, with the folder ./server
  marless serve --slots 8 --data /srv/marless
  marless serve --address 0.0.0.0:443 --host lab.example.org --tls-cert lab.pem --tls-key lab.key
  marless serve backup lab.sqlite        a copy of the queue and the owners
  marless serve owner change ben --weight 2 --at-once 4 --slot-seconds 36000
  marless serve owner list
  marless serve owner tokens ana
  marless serve owner revoke 3f9a1c22
  marless serve owner remove ana         without runs; --runs deletes them too

The commands `owner` and `backup` work while the server runs. Ctrl-C ends
the server after the tasks in flight. The next start continues all runs."""

_DEFAULT = "127.0.0.1:8765"


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="owner VERB NAME | backup FILE",
        help="owner add|change|remove|token|tokens|revoke NAME, owner list, or a copy of the server's file",
    )
    parser.add_argument(
        "--data", type=Path, default=Path("server"), metavar="FOLDER", help="its folder (default: server)"
    )
    parser.add_argument("--address", default=_DEFAULT, metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument("--slots", type=count, default=cores(), metavar="N", help="worker processes (default: cores)")
    parser.add_argument(
        "--at-once", type=count, metavar="N", help="runs that train at once (default: 16), or of an owner"
    )
    parser.add_argument("--memory-mb", type=_amount, default=0.0, metavar="MB", help="memory of all workers together")
    parser.add_argument(
        "--gpus", type=count, default=0, metavar="N", help="learners that use a GPU at once (default: 0)"
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name of the server or its proxy, with its port if it is not 443",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate with its chain (PEM), for https")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate (PEM)")
    parser.add_argument(
        "--allow-unencrypted",
        action="store_true",
        help="listen where other machines reach it, without TLS: anyone on the way can read tokens",
    )
    _arguments_of_owner(parser)


def _arguments_of_owner(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("of an owner")
    group.add_argument("--weight", type=_amount, metavar="W", help="share of the pool (default: 1)")
    group.add_argument("--slot-seconds", type=_amount, metavar="S", help="slot-seconds per day (UTC)")
    group.add_argument("--dollars", type=_amount, metavar="D", help="dollars per day (UTC)")
    group.add_argument("--disk-gb", type=_amount, metavar="GB", help="size of all runs")
    group.add_argument(
        "--keep-days", type=_amount, metavar="D", help="delete runs so many days after they are over (default: never)"
    )
    group.add_argument("--admin", choices=("yes", "no"), help="may change all owners in the browser (default: no)")
    group.add_argument("--runs", action="store_true", help="remove: with all runs that are over")
    group.add_argument(
        "--code", choices=("yes", "no"), help="may name code, programs, services and files (default: no)"
    )


_amount = number("a number above 0", lambda value: value > 0)


def run(options: Namespace) -> int:
    """Serves until a signal, or manages owners."""
    if options.words:
        if options.words[0] == "backup" and not (options.data / FILE).exists():
            raise UserError(f"--data {options.data}: there is no server in this folder")
        with stored(options.data) as (database, owners):
            if options.words[0] == "backup" and len(options.words) == 2:
                database.backup(Path(options.words[1]))
                say(f"wrote {options.words[1]}. Keep it with {options.data}/key and {options.data}/runs")
            else:
                _manage(owners, options)
        return FINISHED
    host, _, port = options.address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UserError(f"--address {options.address}: write HOST:PORT, such as {_DEFAULT}")
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UserError("--tls-cert and --tls-key go together: a certificate, and its private key")
    tls = (options.tls_cert, options.tls_key) if options.tls_cert else None
    settings = Settings(
        data=options.data, slots=options.slots, most=options.at_once or 16, host=host.strip("[]"), port=int(port),
        names=options.host, tls=tls, unencrypted=options.allow_unencrypted, memory_mb=options.memory_mb,
        gpus=options.gpus,
    )  # fmt: skip
    with Signals() as stopping:
        serve(settings, stopping, lambda address: _announce(address, settings))
    return FINISHED


def _announce(address: str, settings: Settings) -> None:
    say(f"serves at {address} with {settings.slots} slots; its folder is {settings.data}")
    with stored(settings.data) as (_, owners):
        if not owners.all():
            note(f"it has no owner yet: {program_name()} serve owner add NAME --data {settings.data}")


def _manage(owners: Owners, options: Namespace) -> None:
    family, verb, name = [*options.words, "", ""][:3]
    action = _VERBS.get(verb) if family == "owner" else None
    if action is None or bool(name) == (verb == "list") or len(options.words) > 3:
        raise UserError(
            f"write {program_name()} serve owner add|change|remove|token|tokens|revoke NAME, owner list, or backup FILE"
        )
    action(owners, name, options)


def _add(owners: Owners, name: str, options: Namespace) -> None:
    owners.add(_changed(Owner(name=name), options))
    say(f"added {name}. Make a token with: {program_name()} serve owner token {name}")


def _change(owners: Owners, name: str, options: Namespace) -> None:
    owners.change(_changed(_owner_of(owners, name), options))


def _remove(owners: Owners, name: str, options: Namespace) -> None:
    _owner_of(owners, name)
    if options.runs:
        with stored(options.data) as (database, _):
            delete_all(Runs(database), options.data / "runs", name)
    owners.remove(name)


def _list(owners: Owners, name: str, options: Namespace) -> None:
    header = ("owner", "weight", "at once", "slot-seconds a day", "dollars a day", "disk GB", "keep days", "rights")
    rows = [
        (owner.name, *(_limit(getattr(owner, limit)) for limit in LIMITS), " ".join(owner.rights) or "-")
        for owner in owners.all().values()
    ]
    say(*table(header, rows).splitlines())


def _token(owners: Owners, name: str, options: Namespace) -> None:
    text = owners.new_token(name)
    note("the token is shown once. Keep it in ~/.config/marless/server-token of its owner")
    say(text)


def _tokens(owners: Owners, name: str, options: Namespace) -> None:
    rows = [(token.id, token.created_at, token.revoked or "-") for token in owners.tokens(_owner_of(owners, name).name)]
    say(*table(("token", "created_at", "revoked"), rows).splitlines())


def _revoke(owners: Owners, token: str, options: Namespace) -> None:
    owners.revoke(token)


def _owner_of(owners: Owners, name: str) -> Owner:
    if (owner := owners.all().get(name)) is None:
        raise UserError(f"there is no owner {name}. List them with: {program_name()} serve owner list")
    return owner


def _changed(owner: Owner, options: Namespace) -> Owner:
    values = {name: getattr(options, name) for name in LIMITS}
    for name in RIGHTS:
        answer = getattr(options, name)
        values[name] = None if answer is None else answer == "yes"
    return replace(owner, **{key: value for key, value in values.items() if value is not None})


def _limit(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


_VERBS: dict[str, Callable[[Owners, str, Namespace], None]] = {
    "add": _add, "change": _change, "remove": _remove, "list": _list, "token": _token, "tokens": _tokens,
    "revoke": _revoke,
}  # fmt: skip

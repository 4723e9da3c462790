"""Malformed datasets: each is refused in one line, or is learned from as it says.

`HOSTILE` and `HONEST` are changes of an export: of its arrays, of its description, or of the bytes of its files.
"""

import copy
import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from marless.coordinator.config.loading import load
from marless.coordinator.errors import UserError
from marless.exports.dataset_files import dataset_files
from marless.exports.episode_recording import play_episodes
from marless.functions.codec import decode
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.messages.team import Opponents, Team
from marless.reports.policy import TeamFile, TeamPolicy
from marless.runs.inputs.datasets import store_dataset

OPTIONS = {"masked": True, "elimination": True, "mixed": True, "horizon": 4}
CHOICES = EnvTask(name="toy/signal", agents=3, options=OPTIONS)
NUMBERS = EnvTask(name="mpe/simple_spread", agents=2, options={"continuous_actions": True})
# Python objects and buffers of a refusal. The largest array of the recording has 2 kB.
MOST_BYTES = 20_000_000


def record(task, episodes):
    """An export of episodes of agents that act at random: its arrays by name, and its description."""
    spec = registry.spec(task)
    agents = tuple(range(len(spec.agents)))
    team = Team(groups=agents, opponents=Opponents(agents=agents, acting="random"))
    found = list(play_episodes(TeamPolicy(TeamFile(task=task, spec=spec, team=team), {}), episodes, False, 0, "a"))
    files = dataset_files(found, "npz", {"task": task, "spec": spec})
    with np.load(io.BytesIO(files["episodes.npz"])) as arrays:
        return {name: arrays[name] for name in arrays.files}, json.loads(files["dataset.json"])


@pytest.fixture(scope="module")
def recordings():
    return {"choices": record(CHOICES, 12), "numbers": record(NUMBERS, 2)}


def settings(task):
    options = (f"task.options.{name}={json.dumps(value)}" for name, value in task.options.items())
    return [f"task.name={task.name}", f"task.agents={task.agents}", *options, "algorithm.name=bc"]


class Shelf(dict):
    put = dict.__setitem__

    def delete(self, keys):
        for key in keys:
            self.pop(key, None)


def stored(folder, task=CHOICES):
    """Return the data that a run would read from this dataset, or raise `UserError`."""
    shelf = Shelf()
    reference = store_dataset(load(None, [*settings(task), f"offline.dataset={folder}"]), "run", shelf)
    return decode(shelf[reference.key], reference.key)


def write(folder, arrays, document):
    np.savez_compressed(folder / "episodes.npz", **arrays)
    (folder / "dataset.json").write_text(json.dumps(document))


# --- changes -------------------------------------------------------------------------------------------------------


def array(name, change):
    def apply(folder, arrays, document):
        write(folder, arrays | {name: change(arrays[name].copy())}, document)

    return apply


def one(name, value, at=3, dtype=None):
    """The value at one place, or in the first column of all rows where a row of a dead agent would mean nothing."""

    def change(found):
        found = found.astype(dtype or np.float64)
        if name in (SEEN, LAST, MAY):
            found[:, 0] = value
        else:
            found.flat[at] = value
        return found

    return array(name, change)


def typed(name, dtype):
    return array(name, lambda found: found.astype(dtype))


def shaped(name, change):
    return array(name, change)


def missing(name):
    def apply(folder, arrays, document):
        write(folder, {key: value for key, value in arrays.items() if key != name}, document)

    return apply


def described(**changes):
    def apply(folder, arrays, document):
        document = copy.deepcopy(document)
        for path, value in changes.items():
            *parts, last = path.split("__")
            at = document
            for part in parts:
                at = at[int(part) if part.isdigit() else part]
            at[int(last) if last.isdigit() else last] = value
        write(folder, arrays, document)

    return apply


def raw(file, body):
    def apply(folder, arrays, document):
        write(folder, arrays, document)
        (folder / file).write_bytes(body)

    return apply


def placed(file, make):
    def apply(folder, arrays, document):
        write(folder, arrays, document)
        (folder / file).unlink()
        make(folder / file)

    return apply


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def header(shape, dtype="<f4", fortran=False, text=None):
    text = (text or repr({"descr": dtype, "fortran_order": fortran, "shape": shape})).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def member(name, body, how=zipfile.ZIP_DEFLATED):
    """Bytes, or a function that writes them, in place of an array's."""

    def apply(folder, arrays, document):
        write(folder, arrays, document)
        with zipfile.ZipFile(folder / "episodes.npz", "w", how) as archive:
            for key, value in {**{key: npy(value) for key, value in arrays.items()}, name: body}.items():
                with archive.open(f"{key}.npy", "w") as file:
                    value(file) if callable(value) else file.write(value)

    return apply


def zeros(size, shape=None):
    def write_zeros(file):
        file.write(header(shape or (size // 4,)))
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))

    return write_zeros


class Boom:
    def __reduce__(self):
        return os._exit, (7,)


def damaged(change):
    def apply(folder, arrays, document):
        write(folder, arrays, document)
        path = folder / "episodes.npz"
        path.write_bytes(change(path.read_bytes()))

    return apply


def flipped(body, at):
    body = bytearray(body)
    body[int(at * len(body))] ^= 255
    return bytes(body)


def swapped(found):
    found[1], found[2] = found[2], found[1]
    return found


SEEN, ACTS, PAID = "agent_0/observations", "agent_0/actions", "agent_0/rewards"
ENDS, LIVES, MAY, STARTS = "agent_0/terminations", "agent_0/alive", "agent_0/masks", "episode_starts"
# The last observation of an agent counts in an episode that it outlives. This is true for agent_2 once.
LAST = "final/agent_2/observations"
FLOATS = (SEEN, PAID, LAST)

HOSTILE = {
    **{f"nan in {name}": one(name, np.nan) for name in (*FLOATS, ACTS, ENDS, LIVES, MAY)},
    **{f"infinity in {name}": one(name, -np.inf) for name in (*FLOATS, ACTS, ENDS, LIVES, MAY)},
    **{f"more than float32 in {name}": one(name, 1e300) for name in FLOATS},
    **{f"a little more than float32 in {name}": one(name, 3.5e38) for name in FLOATS},
    **{f"halves in {name}": array(name, lambda found: found * 0.5) for name in (ENDS, LIVES, MAY)},
    **{f"a two in {name}": one(name, 2) for name in (ENDS, LIVES, MAY)},
    **{f"minus one in {name}": one(name, -1) for name in (ENDS, LIVES, MAY, ACTS, STARTS)},
    **{f"no {name}": missing(name) for name in (SEEN, ACTS, PAID, ENDS, LIVES, MAY, STARTS, f"final/{SEEN}")},
    **{
        f"{kind} in {name}": typed(name, dtype)
        for name in (SEEN, ACTS, STARTS)
        for kind, dtype in {"texts": "U9", "complex numbers": complex, "dates": "M8[s]", "bytes": "S9"}.items()
    },
    **{f"an object in {name}": member(name, npy(np.array([Boom()], object))) for name in (SEEN, STARTS)},
    **{f"a record in {name}": array(name, lambda f: np.zeros(f.shape, [("a", "f4")])) for name in (SEEN, STARTS)},
    **{
        f"{kind} of {name}": shaped(name, change)
        for name in (SEEN, ACTS, PAID, LIVES)
        for kind, change in {
            "a row less": lambda found: found[:-1],
            "an axis more": lambda found: found[..., None],
            "a scalar": lambda found: np.array(1),
            "nothing": lambda found: found[:0],
        }.items()
    },
    "the steps of the episodes turned": shaped(SEEN, np.transpose),
    "actions that are fractions": array(ACTS, lambda found: found + 0.5 * (found < 2)),
    "an action beyond the last": one(ACTS, 99, at=0),
    "an action beyond int64": one(ACTS, 1e19, at=0),
    "an action that the mask forbids": array(MAY, lambda found: np.eye(found.shape[1])[(found.argmax(1) + 1) % 2] > 0),
    "a mask of nothing": array(MAY, np.zeros_like),
    "an agent that comes back": array(LIVES, np.ones_like),
    "an agent that is never there": array(LIVES, np.zeros_like),
    "nobody ends where agents are gone": array(ENDS, np.zeros_like),
    "everybody ends at once": array(ENDS, np.ones_like),
    "starts are a number": array(STARTS, lambda found: np.array(5)),
    "starts have two axes": array(STARTS, lambda found: found[None]),
    "starts are nothing": array(STARTS, lambda found: found[:0]),
    "starts are one": array(STARTS, lambda found: found[:1]),
    "starts with NaN": one(STARTS, np.nan, at=-1),
    "starts with a fraction": one(STARTS, 2.5, at=1),
    "starts are truths": typed(STARTS, bool),
    "starts beyond int64": one(STARTS, 2**63 + 5, at=-1, dtype=np.uint64),
    "unsigned starts that fall": array(STARTS, lambda found: swapped(found.astype(np.uint64))),
    "starts that stay": array(STARTS, lambda found: np.r_[0, 0, found[2:]]),
    "starts from one": array(STARTS, lambda found: found + 1),
    "starts short of the steps": array(STARTS, lambda found: found[:-1]),
    "starts beyond the steps": one(STARTS, 10**6, at=-1, dtype=np.int64),
    "a horizon below none": described(spec__horizon=-1),
    "a horizon of none": described(spec__horizon=0),
    "a horizon of a billion": described(spec__horizon=10**9),
    "a horizon that is a text": described(spec__horizon="4"),
    "no agents": described(spec__agents=[]),
    "no agents and no classes": described(spec__agents=[], spec__classes=[]),
    "no classes": described(spec__classes=[]),
    "an agent too many": described(spec__agents=["agent_0", "agent_1", "agent_2", "agent_3"]),
    "agents of one name": described(spec__agents=["agent_0", "agent_0", "agent_2"]),
    "an agent of another name": described(spec__agents=["agent_0", "agent_1", "\x1b[31m\r../x\n"]),
    "a member out of range": described(spec__classes__0__agents=[0, 77]),
    "a member below none": described(spec__classes__0__agents=[-1, 0]),
    "a class of nobody": described(spec__classes__0__agents=[]),
    "another number of actions": described(spec__classes__0__actions=1),
    "actions below none": described(spec__classes__0__actions=-3),
    "observations below none": described(spec__classes__0__observation_size=-3),
    "observations of 2**40": described(spec__classes__0__observation_size=2**40),
    "branches that are none": described(spec__classes__0__branches=[0, 0]),
    "bounds of choices": described(spec__classes__0__low=[0.0], spec__classes__0__high=[1.0, 2.0]),
    "a state that is not there": described(spec__state_size=5),
    "a state below none": described(spec__state_size=-5),
    "sides of some": described(spec__sides=[0]),
    "sides that begin at 5": described(spec__sides=[5, 6, 7]),
    "another task": described(task__name="toy/corridor"),
    "other options": described(task__options={}),
    "a member that nobody knows": described(spec__secret=1),
    "no spec": described(spec=None),
    "a description that is a list": raw("dataset.json", b"[]"),
    "a description that is deep": raw("dataset.json", b"[" * 200_000),
    "a description that is not UTF-8": raw("dataset.json", b'{"task": "\xff\xfe"}'),
    "a description that is a pickle": raw("dataset.json", pickle.dumps(Boom())),
    "a description that is nothing": raw("dataset.json", b""),
    "no description": placed("dataset.json", lambda path: None),
    "a description without end": placed("dataset.json", lambda path: path.symlink_to("/dev/zero")),
    "a description that is a pipe": placed("dataset.json", os.mkfifo),
    "a description that is a folder": placed("dataset.json", os.mkdir),
    "no arrays": placed("episodes.npz", lambda path: None),
    "arrays without end": placed("episodes.npz", lambda path: path.symlink_to("/dev/zero")),
    "arrays that are a pipe": placed("episodes.npz", os.mkfifo),
    "arrays that are a folder": placed("episodes.npz", os.mkdir),
    "a link to itself": placed("episodes.npz", lambda path: path.symlink_to(path)),
    "arrays that are a pickle": raw("episodes.npz", pickle.dumps(Boom())),
    "arrays that are one array": raw("episodes.npz", npy(np.zeros(5))),
    "arrays that are a text": raw("episodes.npz", b"no numbers"),
    "arrays that are nothing": raw("episodes.npz", b""),
    "half a file": damaged(lambda body: body[: len(body) // 2]),
    "a file without its end": damaged(lambda body: body[:-30]),
    "a large array of zeros": member(SEEN, zeros(1 << 27)),
    "a long array of zeros": member(STARTS, zeros(1 << 27)),
    "a shape of 2**40": member(SEEN, header((1 << 40, 18))),
    "a shape of 2**40 of one axis": member(STARTS, header((1 << 40,), "<i8")),
    "a shape below none": member(SEEN, header((-5, 18))),
    "a length below none": member(STARTS, header((-5,), "<i8")),
    "a header that is no dictionary": member(SEEN, header((), text="(" * 500)),
    "a header that calls": member(SEEN, header((), text="__import__('os')._exit(7)")),
    "a header without end": member(SEEN, b"\x93NUMPY\x02\x00" + b"\xff" * 100_000),
    "a version of the future": member(SEEN, b"\x93NUMPY\x09\x00" + bytes(200)),
    "a member of nothing": member(SEEN, b""),
    "a member that is short": lambda folder, arrays, document: member(SEEN, npy(arrays[SEEN])[:-1])(
        folder, arrays, document
    ),
    "a member that is long": lambda folder, arrays, document: member(SEEN, npy(arrays[SEEN]) + b"0")(
        folder, arrays, document
    ),
}  # fmt: skip

HONEST = {
    "as recorded": array(SEEN, lambda found: found),
    "actions as floats": typed(ACTS, np.float32),
    "actions as bytes": typed(ACTS, np.uint8),
    "actions without a sign": typed(ACTS, np.uint64),
    "truths as numbers": array(LIVES, lambda found: found.astype(float)),
    "ends as integers": typed(ENDS, int),
    "starts as floats": typed(STARTS, float),
    "starts without a sign": typed(STARTS, np.uint64),
    "starts of 32 bits": typed(STARTS, np.int32),
    "wide observations": typed(SEEN, np.float64),
    "halved observations": typed(SEEN, np.float16),
    "column by column": array(SEEN, np.asfortranarray),
    "bytes the other way round": typed(SEEN, ">f4"),
    "an array that nobody reads": member("more", npy(np.zeros(9))),
    "a large array that nobody reads": member("more", zeros(1 << 27)),
    "an object that nobody reads": member("more", npy(np.array([Boom()], object))),
    "packed by another method": member("more", npy(np.zeros(9)), zipfile.ZIP_LZMA),
}


def test_there_are_enough():
    assert len(HOSTILE) > 100


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_dataset_is_refused_in_one_line(name, recordings, tmp_path, recwarn):
    HOSTILE[name](tmp_path, *recordings["choices"])
    tracemalloc.start()
    try:
        with pytest.raises(UserError) as refused:
            stored(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = str(refused.value)
    assert said.startswith(f"offline.dataset {tmp_path}") and "\n" not in said and len(said) < 600
    assert peak < MOST_BYTES and not recwarn.list


@pytest.mark.parametrize("name", HONEST)
def test_honest_dataset_is_read_as_recorded(name, recordings, tmp_path, recwarn):
    arrays, document = recordings["choices"]
    HONEST[name](tmp_path, arrays, document)
    found = stored(tmp_path)
    (tmp_path / "plain").mkdir()
    write(tmp_path / "plain", arrays, document)
    expected = stored(tmp_path / "plain")
    assert {key: value.tobytes() for key, value in found.items()} == {k: v.tobytes() for k, v in expected.items()}
    assert not recwarn.list


def test_flipped_byte_is_refused_or_changes_nothing(recordings, tmp_path):
    arrays, document = recordings["choices"]
    write(tmp_path, arrays, document)
    expected, refusals = {key: value.tobytes() for key, value in stored(tmp_path).items()}, 0
    for at in np.linspace(0, 1, 60, endpoint=False):
        damaged(lambda body, at=at: flipped(body, at))(tmp_path, arrays, document)
        try:
            assert {key: value.tobytes() for key, value in stored(tmp_path).items()} == expected
        except UserError as error:
            refusals += 1
            assert "\n" not in str(error)
    assert refusals > 30


NUMBERED = {
    "beyond its own bound": one(ACTS, 1.5, at=0),
    "not a number": one(ACTS, np.nan, at=0),
    "an axis less": shaped(ACTS, lambda found: found[:, 0]),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_hostile_number_dataset_is_refused_in_one_line(name, recordings, tmp_path):
    NUMBERED[name](tmp_path, *recordings["numbers"])
    with pytest.raises(UserError, match=r"agent_0/actions") as refused:
        stored(tmp_path, NUMBERS)
    assert "\n" not in str(refused.value)


def test_numbers_at_bound_survive_rounding_errors(recordings, tmp_path):
    one(ACTS, 1 + 1e-7, at=0)(tmp_path, *recordings["numbers"])
    assert stored(tmp_path, NUMBERS)["action/0"].max() == 1

"""The built-in language tasks: the protocol, and the rewards of episodes, by hand."""

from functools import partial
from itertools import islice

import numpy as np
import pytest

from marless.functions.environments.base import EnvTask
from marless.functions.environments.language_task_names import BUILT_IN
from marless.functions.errors import BadRequest
from marless.functions.resources.code_judge import grade
from marless.functions.resources.port import RESOURCES
from marless.functions.resources.serving.sandbox import Sandbox
from marless_language.protocol import Outcome
from marless_language.registry import make
from marless_language.symbols import Symbols
from marless_language.tasks.conformance import check


class Judge:
    """Runs programs without a sandbox, each of them once."""

    def __init__(self):
        self.answers = {}

    def call(self, name, questions):
        for question in questions:
            if question not in self.answers:
                self.answers[question] = grade(question, Sandbox("none", timeout_s=20, memory_mb=256))
        return [self.answers[question] for question in questions]


def task_of(name, tokenizer=None, **options):
    return make(EnvTask(name=name, options=options), tokenizer)


def play(task, *replies, seed=1):
    """Return the texts of the prompts of one episode with these replies, and its outcome."""
    texts, turn = [], task.reset(np.random.default_rng(seed), 1)
    for reply in replies:
        texts.append(task.tokenizer.decode(turn.prompts[0].tolist()))
        turn = task.reply(np.array([task.tokenizer.encode(reply)], np.int32))
    assert isinstance(turn, Outcome)
    return texts, turn


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_tasks_keep_the_protocol(name):
    with RESOURCES.bind(Judge()):
        check(partial(task_of, name))


def test_relay_pays_both_for_right_sum():
    words = Symbols(task_of("text/relay").tokenizer.symbols).symbols[10:20]
    for seed in range(8):
        (spoken, added), wrong = play(task_of("text/relay"), "7", "0", seed=seed)
        first, second = words.index(spoken.split()[2]), int(added[-2])
        assert added == f"1+2=3, 4+4=8, 7+{second}="
        assert wrong.rewards.tolist() == [[float(first + second == 0)] * 2]
        _, right = play(task_of("text/relay"), "7", str(first + second), seed=seed)
        assert right.rewards.tolist() == [[1.0, 1.0]]
        assert right.metrics["literal_messages"].tolist() == [float(first == 7)]


def test_relay_has_pairs_that_are_never_trained():
    starts = {}
    for pairs in ("all", "seen", "unseen"):
        turn = task_of("text/relay", pairs=pairs).reset(np.random.default_rng(0), 4000)
        assert len(turn.prompts) == 4000
        task = task_of("text/relay", pairs=pairs)
        task.reset(np.random.default_rng(0), 4000)
        starts[pairs] = {*zip(task._first_number.tolist(), task._second_number.tolist(), strict=True)}
    assert len(starts["all"]) == 55
    assert starts["seen"] | starts["unseen"] == starts["all"]
    assert not starts["seen"] & starts["unseen"]


def test_dictation_pays_half_for_note_half_for_whole():
    words = task_of("text/haggle").tokenizer.symbols[10:20]
    opening, _, more, _ = play(task_of("text/dictate", length=2), "00", "00", "00", "0000")[0]
    first, second = (
        "".join(str(words.index(word)) for word in asked.splitlines()[-1].strip(" :").split())
        for asked in (opening, more)
    )
    assert len(first) == len(second) == 2
    assert " three one: 31\n" in opening
    for told, note, whole, paid in (
        (("47", "74"), first, first + second, 1.0),
        (("47", "74"), first, second + first, 0.5),
        ((first, second), "55", first + second, 0.5),
        ((first, second), "55", first + first, 0.0),
    ):
        (_, noted, _, joined), outcome = play(task_of("text/dictate", length=2), told[0], note, told[1], whole)
        assert noted.splitlines()[-1] == f"{told[0]}: "
        assert joined.splitlines()[-1] == f"{note},{told[1]}: "
        assert outcome.rewards.tolist() == [[paid, paid]]
        assert outcome.metrics["success"].tolist() == [float(whole == first + second)]
    assert task_of("text/dictate").reset(np.random.default_rng(0), 2).length == 5


def test_digit_reader_reads_digits_that_earn_the_reward():
    task = partial(task_of, "text/dictate", script="digits", length=2)
    opening, _, more, _ = play(task(), "00", "00", "00", "0000")[0]
    assert opening.startswith("31: 31\n92: 92\n") and more.startswith("31: 31\n92: 92\n")
    first, second = (asked.splitlines()[-1].removesuffix(": ") for asked in (opening, more))
    assert play(task(), first, first, second, first + second)[1].rewards.tolist() == [[1.0, 1.0]]
    check(task)


def test_haggling_pays_each_share_only_after_deal():
    (opening, asked, answered), deal = play(task_of("text/haggle"), "2", "5", "yes")
    numbers = task_of("text/haggle").tokenizer.symbols[10:20]
    worth, cost = numbers.index(opening.split()[3]), numbers.index(asked.split()[3].strip("."))
    assert "You offer 2" in asked
    assert answered.endswith("You ask 5. A deal? ")
    assert deal.rewards == pytest.approx(np.array([[(worth - 5) / 10, (5 - cost) / 10]]))
    _, none = play(task_of("text/haggle"), "2", "5", "no")
    assert none.rewards.tolist() == [[0.0, 0.0]]


def test_checker_and_writer_are_paid_by_their_results():
    with RESOURCES.bind(Judge()):
        (asked, checked), _ = play(task_of("text/check"), "1+1", "yes")
        operators = {"plus": "+", "minus": "-", "times": "*"}
        first, operator, second = asked.split()[2:5]
        words = ("zero", "one", "two", "three", "four", "five")
        right = f"{words.index(first)}{operators[operator]}{words.index(second.strip(','))}"
        assert checked.endswith("print(1+1). Is that right? ")
        assert play(task_of("text/check"), right, "yes")[1].rewards.tolist() == [[1.0, 1.0]]
        assert play(task_of("text/check"), right, "no")[1].rewards.tolist() == [[1.0, 0.0]]
        assert play(task_of("text/check"), "++1", "no")[1].rewards.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("text/rellay", {}, "no language task is called text/rellay; did you mean text/relay?"),
        ("text:relay", {}, "'text:relay' names no language task: write it as 'text:package.module:make'"),
        ("text:os.path:join", {}, "'os.path' belongs to Python's own library"),
        ("text/dictate", {"length": 6}, "text/dictate: task.options.length: it is not a whole number of at most 5"),
        ("text/relay", {"pairs": "some"}, "text/relay: task.options.pairs: 'some' is not one of its values"),
    ],
)
def test_impossible_task_is_refused_in_one_line(name, options, message):
    with pytest.raises(BadRequest) as refusal:
        make(EnvTask(name=name, options=options))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_another_vocabulary_is_refused_in_one_line():
    with pytest.raises(BadRequest, match=r"text/relay: the vocabulary has no symbol for '5'; name another base\.model"):
        task_of("text/relay", Symbols(["0", "1", "2", "3", "4"]))
    pairs = Symbols([*"0123456789", "12"])
    assert pairs.encode("3124") == [3, 10, 4]
    assert pairs.decode(pairs.encode("3124")) == "3124"
    assert list(islice(pairs.symbols, 3)) == ["0", "1", "2"]

"""The benchmark of adapters: both sides play the same episodes."""

import numpy as np
import pytest

from benchmarks.adapters import __main__ as measuring
from benchmarks.adapters.entries import ENTRIES, Entry, pettingzoo
from benchmarks.adapters.masked_games import Ladder
from benchmarks.adapters.plan import draw
from benchmarks.adapters.raw import Stepper, parallel, turns
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask


class Written(Ladder):
    def __init__(self):
        super().__init__(climbers=3, max_cycles=12)
        self.lines = []

    def reset(self, seed=None, options=None):
        self.lines.append(seed)
        return super().reset(seed=seed)

    def step(self, actions):
        self.lines.append({agent: int(action) for agent, action in actions.items()})
        return super().step(actions)


@pytest.fixture
def written(monkeypatch):
    made = []

    def factory():
        made.append(Written())
        return made[-1]

    monkeypatch.setattr("benchmarks.adapters.masked_games.Written", factory, raising=False)
    return made


def test_adapter_and_plain_loop_play_same_episodes(written):
    task = EnvTask(name="pettingzoo:benchmarks.adapters.masked_games:Written")
    plan = draw(registry.make(task, 1), 30)
    raw = parallel(Written)
    assert sum(plan.lengths) >= 30 and max(plan.lengths) <= 12
    found = measuring.subjects(Entry(task, lambda plan: raw(plan), steps=30))
    drawn = written[-1].lines[:]
    plain = Written()
    parallel(lambda: plain)(plan).play()
    written[-1].lines.clear()
    found["adapter"].play()
    assert written[-1].lines == plain.lines
    assert sum(isinstance(line, int) for line in plain.lines) == len(plan.lengths) + 1
    assert found["adapter"].steps == found["raw"].steps == sum(plan.lengths)
    # The adapter draws first for its own look at the state.
    assert drawn[-len(plain.lines) :] == plain.lines


def test_a_plan_has_legal_actions_only():
    plan = draw(registry.make(EnvTask(name="pettingzoo:benchmarks.adapters.masked_games:Ladder"), 1), 200)
    ladder, seeds = Ladder(), iter(plan.seeds())
    for episode in plan.dictionaries(ladder.possible_agents):
        seen, _ = ladder.reset(seed=next(seeds))
        for actions in episode:
            assert all(seen[agent]["action_mask"][action] for agent, action in actions.items())
            assert [*actions] == ladder.agents
            seen = ladder.step(actions)[0]
        assert not ladder.agents


def test_turn_game_is_played_to_its_end():
    from pettingzoo.classic import tictactoe_v3

    plan = draw(registry.make(ENTRIES["tic-tac-toe"].task, 1), 40)
    game = tictactoe_v3.env()
    turns(lambda: game)(plan).play()  # an illegal move would end a game early, and `next` would not fit
    assert all(5 <= length <= 9 for length in plan.lengths)


def test_rates_are_counted_per_subject_and_repetition():
    played = {"raw": 0, "adapter": 0}

    def stepper(name):
        def play():
            played[name] += 1
            np.linalg.norm(np.ones(1000))

        return Stepper(10, play)

    found = measuring.rates({name: stepper(name) for name in played}, 2, 1e-4)
    assert {name: len(values) for name, values in found.items()} == {"raw": 2, "adapter": 2}
    assert played["raw"] == played["adapter"] > 2


def test_entry_of_missing_package_is_named(monkeypatch, capsys):
    entry = pettingzoo("nobody_has_this.game_v1:parallel_env", ("nobody",))
    monkeypatch.setitem(ENTRIES, "nobody", entry)
    monkeypatch.setattr("sys.argv", ["adapters", "nobody"])
    measuring.main()
    assert "nobody_has_this" in capsys.readouterr().out

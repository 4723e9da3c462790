"""Classes and functions of a notebook, in a real kernel."""

from pathlib import Path

import named_games
import pytest
from drawing_commands import with_pictures

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "your-algorithm.md"
SMALL = "small = {'actors': {'num_envs': 2}, 'evaluation': {'episodes': 2, 'final_episodes': 2}, 'quiet': True}\n"
# A busy machine needs long to import torch.
SMALL += "small['functions'] = {name: {'timeout_s': 300} for name in ('actor', 'learner', 'evaluator')}\n"
NETWORK = """import torch
class Wide(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(shape.width + shape.rest, 16), torch.nn.ReLU(), torch.nn.Linear(16, shape.outputs)
        )
    def forward(self, observation, rest):
        return self.layers(torch.cat([observation, rest], dim=1))
"""
BENCHMARK = """import marless
result = marless.benchmark(
    ["toy/signal"], ["ippo", "vdn", "iql"], seeds=5, rounds=2, **small
)
result.plot().savefig("benchmark.png")
result"""


def run(folder, *cells):
    """Runs the cells in a new kernel, and returns the output of each."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(notebook, timeout=300, startup_timeout=300)
    client.execute(env=with_pictures(), cwd=folder)
    return [cell.outputs for cell in notebook.cells]


@pytest.mark.slow
def test_a_kernel_trains_its_classes(home):
    *_, trained, stopped, wide = run(
        home,
        SMALL + Path(named_games.__file__).read_text(),
        "import marless\nmarless.train(Game, rounds=2, run='game', **small).summary.rounds",
        "marless.train(Game, rounds=9, callbacks=[lambda row: row['round'] == 2], **small).summary.rounds",
        f"{NETWORK}marless.train(Game, network=Wide, rounds=1, run='wide', **small).summary.rounds",
    )
    assert [outputs[-1]["data"]["text/plain"] for outputs in (trained, stopped, wide)] == ["2", "2", "1"]
    # Another kernel knows no class.
    again = run(
        home, "import marless\nfor name in ('game', 'wide'): print(marless.evaluate(name, episodes=2).returns.mean)"
    )
    assert "".join(output.get("text", "") for output in again[0]) == "6.0\n6.0\n"


@pytest.mark.slow
def test_a_kernel_compares_its_algorithm(home):
    algorithm = TUTORIAL.read_text().partition("```python\n")[2].partition("run = ")[0]
    assert len(BENCHMARK.splitlines()) == 6
    *_, own, shown = run(
        home, SMALL, algorithm, "marless.train('toy/signal', 'mean_field', rounds=1, **small).name", BENCHMARK
    )
    assert own[-1]["data"]["text/plain"].startswith("'signal-mean_field-")
    assert "3 arms over 5 seeds on toy/signal" in shown[-1]["data"]["text/html"]
    assert (home / "benchmark.png").read_bytes()[:4] == b"\x89PNG"

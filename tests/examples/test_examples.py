"""The examples run unmodified, with fewer rounds."""

import base64
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from drawing_commands import with_pictures

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SHORT = {
    "compare_settings": {"rounds": 2, "seeds": range(1, 3)},
    "emulated_account": {"rounds": 1},
    "image_task": {"rounds": 1, "networks": ("cnn",), "evaluation": {"episodes": 2, "final_episodes": 2}},
    "own_algorithm": {"rounds": 2},
    "own_environment": {"rounds": 2},
    "own_language_task": {"rounds": 2},
    "own_rule": {"rounds": 3},
    "train_and_load": {"rounds": 2},
}


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHORT.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(name, tmp_path, shell, capsys, no_processes):
    shell.cd(tmp_path)
    shell.import_from(EXAMPLES)
    importlib.import_module(name).main(**SHORT[name])
    assert capsys.readouterr().out.strip()


def cells():
    notebook = json.loads((EXAMPLES / "first_notebook.ipynb").read_text())
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_fresh_and_its_cells_run(tmp_path, shell, no_processes):
    shell.cd(tmp_path)
    names = {}
    for cell in cells():
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        exec("".join(cell["source"]), names)
        if "parameters" in cell["metadata"].get("tags", ()):
            names["rounds"] = 1
    assert names["run"].summary.rounds == 2
    shown = (
        names["run"].plot()._repr_png_(),
        base64.b64decode(names["run"].replay(episodes=1)._repr_mimebundle_()["text/html"].split('"')[1].split(",")[1]),
    )
    assert [picture[:4] for picture in shown] == [b"\x89PNG", b"GIF8"]


@pytest.mark.conformance
def test_notebook_shows_run_curve_and_replay(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(EXAMPLES / "first_notebook.ipynb", 4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}})
    client.execute(env=with_pictures())
    kinds = {
        cell.id: [output.get("data", {}).keys() for output in cell.outputs]
        for cell in notebook.cells
        if "outputs" in cell
    }
    panel, *_, card = kinds["train"]
    assert {"text/html", "text/plain"} == panel == card
    assert kinds["plot"] == [{"image/png", "text/plain"}] and kinds["replay"] == [{"text/html", "text/plain"}]


def test_an_example_runs_as_a_program(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), str(ROOT)])}
    code = "import own_environment; own_environment.main(rounds=2)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)


@pytest.mark.parametrize("name", SHORT)
def test_an_example_is_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60

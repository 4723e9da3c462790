"""Pages for people who come from other libraries: whole files that load, and the names that both tables have."""

import re
import tomllib

import pytest

from coordinator.config.foreign_names import PEERS
from coordinator.config.loading import load
from scripts.reference.pages import ROOT
from scripts.reference.peers import LIBRARIES

EXAMPLES = ROOT / "examples"


def files(path):
    return re.findall(r"```toml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_page_has_two_whole_files_that_train(library, tmp_path):
    texts = files(LIBRARIES[library])
    assert len(texts) == 2
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        config = load(path, [])
        assert config.stop.env_steps is not None and config.algorithm.name in text


def test_the_files_of_the_page_of_epymarl_are_the_examples():
    presets = [EXAMPLES / f"epymarl_{name}_mpe.toml" for name in ("mappo", "qmix")]
    for text, preset in zip(files(LIBRARIES["EPyMARL"]), presets, strict=True):
        assert tomllib.loads(text) == tomllib.loads(preset.read_text(encoding="utf-8"))


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_name_that_a_mistake_is_answered_with_stands_in_the_page_of_its_library(library):
    page = LIBRARIES[library].read_text(encoding="utf-8")
    assert [name for name in PEERS[library] if f"| `{name}` |" not in page] == []

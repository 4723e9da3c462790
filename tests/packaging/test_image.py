"""The learner's image: its Dockerfile, parsed and executed without a container engine."""

import re
import subprocess
from pathlib import Path

import pytest

from marless.infra.packaging.package_build import ENTRIES, PYTHON, ROOT, sources
from scripts.audit_image import DOCKERFILE, send
from scripts.dockerfile import Followed, steps

TEXT = DOCKERFILE.read_text()


def test_steps_are_read_across_comments_and_continued_lines():
    text = '# a comment\nFROM base:1\n\nRUN one \\\n    # between\n    && two\nCMD ["m.handler"]\n'
    assert steps(text) == [("FROM", "base:1"), ("RUN", "one && two"), ("CMD", '["m.handler"]')]


@pytest.mark.parametrize("line", ["ADD https://x /y", "COPY --from=other a b", "RUN --mount=type=cache pip", "USER me"])
def test_step_that_needs_engine_is_refused(line):
    with pytest.raises(ValueError, match="without a container engine"):
        steps(f"FROM base\n{line}\n")


def test_followed_steps_stay_below_the_root(tmp_path):
    context, root = tmp_path / "context", tmp_path / "root"
    (context / "code").mkdir(parents=True)
    (context / "code/a.py").write_text("a")
    (context / "list.txt").write_text("l")
    text = """
FROM base
ARG WHO="nobody"
ENV GREETING=hello
WORKDIR /opt/place
COPY list.txt missin[g] ./
COPY code ${LAMBDA_TASK_ROOT}/code
RUN echo "${GREETING} ${WHO}" > said.txt && cp list.txt "${LAMBDA_TASK_ROOT}"
CMD ["m.handler"]
"""
    image = Followed(context, root, {})
    image.follow(text, {"WHO": "world"})
    assert (root / "opt/place/said.txt").read_text() == "hello world\n"
    assert (root / "var/task/list.txt").read_text() == "l"
    assert (root / "var/task/code/a.py").read_text() == "a"
    assert image.command == ["m.handler"]


def test_a_step_that_fails_ends_the_following(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        Followed(tmp_path, tmp_path / "root", {}).follow("FROM base\nWORKDIR /x\nRUN false\n", {})


def test_a_file_that_the_context_lacks_is_named(tmp_path):
    with pytest.raises(ValueError, match="gone"):
        Followed(tmp_path, tmp_path / "root", {}).follow("FROM base\nCOPY gone.txt ./\n", {})


def test_image_has_python_and_processor_of_packages():
    found = dict(steps(TEXT))
    assert found["CMD"] == f'["{ENTRIES["learner"]}.handler"]'
    # A dated tag is immutable. "3.12-arm64" moves.
    assert found["FROM"].startswith(f"public.ecr.aws/lambda/python:{PYTHON}.20")
    # Moving the tag does not change the digest.
    assert re.search(r"-arm64@sha256:[0-9a-f]{64}$", found["FROM"])


def test_versions_are_in_pins_and_not_in_dockerfile():
    [step] = [rest for step, rest in steps(TEXT) if step == "RUN" and "pip install" in rest]
    download, install = (part for part in step.split("&&") if "pip " in part)
    assert "--require-hashes --dest pins --requirement constraints-functions.txt" in " ".join(download.split())
    assert "pins/*.whl" in install
    assert "==" not in step


def test_engine_receives_only_files_of_learner(tmp_path):
    send(ROOT, tmp_path)
    sent = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    # The parts of the program are links in `marless`, and the engine gets their folders.
    assert {file.relative_to("marless") for file in sources(ROOT, ENTRIES["learner"]).files} <= sent
    assert Path("infra/packaging/constraints-functions.txt") in sent
    allowed = {".dockerignore", "functions", "infra", "marless", "build"}
    assert {path.parts[0] for path in sent} <= allowed
    assert not [path for path in sent if "__pycache__" in path.parts]

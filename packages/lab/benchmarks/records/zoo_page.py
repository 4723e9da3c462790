"""docs/reference/zoo.md: the stored teams of packages/marless-zoo, from their records."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.reference import markdown

_POLICIES = markdown.DATA.parents[1] / "packages" / "marless-zoo" / "marless_zoo" / "policies"
_ABOUT = """\
These teams are trained. The command below shows one at once, from an installed wheel too. It needs the extra `zoo`
(`pip install -e ./packages/marless-zoo -e '.[zoo]'` in the source tree):

```
marless play spread-relation-ippo                    # its return, and three episodes as spread-relation-ippo.gif
marless play spread-relation-ippo --beside random
```

`marless play` repeats the final evaluation of the team's training. It says whether the return is the stored one. A team
is one file, which other commands and `marless.load_policy` take. `marless play NAME --json` names it."""
_TEAMS = """\
A return is greedy, undiscounted and summed over all agents, or over the side that is named. Its 95 % interval is over
the episodes of this one run. `weights` is the start of the hash of all weights of the run. All teams were trained
by the commits {commits}."""
_PROCESSORS = """\
On these processors the training gave the stored hash. Some runs give it
[on every processor](../explanation/exactness.md#one-hash-on-every-machine). `python -m marless_zoo reproduce NAME`
trains a team again. If the hash is equal, the command adds your processor to the team's record."""
_ADD = """\
One command trains a team and stores it in your source tree, with its command, configuration, commit, hashes and return:

```
.venv/bin/python -m marless_zoo add my-team mpe/simple_tag mappo seed=1
```

`my-team` is the name. The other words are settings, as for `marless train`. The command checks that the return repeats.
Then type `make docs` and commit the three new files and this page. All files together may have 2 MB."""


def page() -> str:
    """Return the whole page."""
    teams = records()
    commits = ", ".join(sorted({team["commit"][:7] for team in teams}))
    header = ("name", "task", "algorithm", "return", "of side", "environment steps", "weights", "command")
    parts = [
        _ABOUT,
        "## Teams",
        _TEAMS.format(commits=commits),
        markdown.table(header, map(_row, teams)),
        "## Processors",
        _PROCESSORS,
        markdown.table(("processor", "teams"), _processors(teams)),
        "## Add yours",
        _ADD,
    ]
    return markdown.page("Zoo", "`packages/marless-zoo`", parts)


def records() -> list[dict[str, Any]]:
    """Return the records of all teams, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(_POLICIES.glob("*.json"))]


def _row(team: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = team["returns"]["ci95"]
    return (
        markdown.code(team["name"]),
        markdown.code(team["task"]),
        markdown.code(team["algorithm"]),
        f"{team['returns']['mean']:.2f} ({low:.2f} to {high:.2f})",
        team["side"],
        f"{team['env_steps']:,}",
        markdown.code(team["weights_sha256"][:12]),
        markdown.code(shlex.join(["marless", "train", *team["settings"]])),
    )


def _processors(teams: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    processors = sorted({processor for team in teams for processor in team["processors"]})
    rows = []
    for processor in processors:
        names = [markdown.code(team["name"]) for team in teams if processor in team["processors"]]
        rows.append((processor, "all" if len(names) == len(teams) else ", ".join(names)))
    return rows

"""Names of commands in groups, and the names that commands had before."""

from collections.abc import Sequence

# The first screen of help. A command is a module of its name, imported only when it is called: commands start quickly.
GROUPS = {
    "train": {
        "train": "train a team of policies",
        "study": "train many runs over settings and seeds, all at once",
        "resume": "continue a run that stopped, or raise its limits",
        "stop": "stop a run after the tasks in flight (you can resume it)",
    },
    "look": {
        "status": "show the progress or the bill of a run, or follow it",
        "evaluate": "play a run's policies and print their return",
        "replay": "show a run's policies play, in a picture or a window",
        "report": "write an HTML page about runs, or a timeline of functions",
        "compare": "compare trained runs over seeds, with intervals",
        "crossplay": "play the policies of runs against one another",
    },
    "take": {
        "export": "write a run's policies or episodes for other programs",
        "log": "log a run to TensorBoard, W&B, MLflow or a CSV file",
    },
    "plan": {
        "estimate": "estimate or simulate the cost and duration of a run",
        "plan": "choose the cheapest placement for a deadline and dollars",
        "config": "print the settings of a run with descriptions",
    },
    "keep": {"runs": "list, archive, restore, remove and verify runs"},
    "cloud": {"cloud": "the deployment on AWS, and the runs that it holds"},
    "machines": {
        "worker": "serve runs that another machine drives",
        "serve": "share this machine: a queue of several people's runs",
        "server": "submit, watch, stop and fetch runs of such a server",
        "doctor": "check which programs and packages are installed",
        "check": "try an environment and show how a run understands it",
    },
}
# Commands of two words. `marless runs` alone lists runs.
FAMILIES = {
    "runs": {
        "list": "list all runs",
        "archive": "write a run into one file",
        "restore": "bring back a run that was archived",
        "remove": "delete runs and studies",
        "verify": "check a run's objects and weights against their hashes",
    },
    "cloud": {
        "deploy": "create or update the deployment that runs on AWS need",
        "teardown": "delete a deployment and all its runs",
        "policy": "print the IAM policy that training, or deploying, needs",
        "logs": "print the logs of deployed functions",
        "runs": "list the runs that a deployment holds",
        "archive": "write a run of the cloud into one file",
        "restore": "bring a run of the cloud back from that file",
        "remove": "delete runs in the cloud",
        "budget": "show and set the dollars a day and a month of detached runs",
        "bill": "print the dollars of a month by owner, kind and run",
        "doctor": "list deployments, and find outdated and changed parts",
        "prune": "list and delete unneeded parts of a deployment",
    },
}
# Commands that most users never need.
_RARE = {"pretrain": "make a small language model for a task with agents that speak"}
# Earlier commands with separate options, and the end of the sentence that names the new way.
OLD_COMMANDS = {"ablate": "study FILE`, where the file names `rules`"}
# The completions of the tab key: the first screen, and commands of two words.
OFFERED = {name: does for group in GROUPS.values() for name, does in group.items()} | {
    f"{family} {name}": does for family, names in FAMILIES.items() for name, does in names.items()
}
COMMANDS = {name: does for name, does in OFFERED.items() if name not in FAMILIES} | _RARE
_OLD_NAMES = {
    "archive": "runs archive",
    "bill": "status --bill",
    "completion": "doctor --completion",
    "deploy": "cloud deploy",
    "logs": "cloud logs",
    "policy": "cloud policy",
    "remove": "runs remove",
    "simulate": "estimate --simulate",
    "teardown": "cloud teardown",
    "timeline": "report --timeline",
    "unarchive": "runs restore",
    "verify": "runs verify",
    "watch": "status --follow",
}
# Options that another word replaced, by command.
_OLD_OPTIONS = {
    ("estimate", "--slots"): "--concurrency",
    ("study", "--slots"): "--workers",
    ("worker", "--slots"): "--workers",
    ("ablate", "--jobs"): "--workers",
    **{(command, "-o"): "--out" for command in ("report", "export", "runs archive")},
}


def renamed(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the line with today's names, and a sentence for each old name."""
    new_name = _OLD_NAMES.get(argv[0], argv[0])
    sentences = [f"`marless {argv[0]}` is now `marless {new_name}`"] if new_name != argv[0] else []
    if argv[0] in OLD_COMMANDS:
        sentences = [f"`marless {argv[0]}` is now `marless {OLD_COMMANDS[argv[0]]}"]
    words = new_name.split()
    command, _ = command_and_rest([*words, *argv[1:]])
    for text in argv[1:]:
        option, equals, value = text.partition("=")
        if (new_option := _OLD_OPTIONS.get((command, option), option)) != option:
            sentences.append(f"{option} of `marless {command}` is now {new_option}")
        words.append(f"{new_option}{equals}{value}")
    return words, sentences


def command_and_rest(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command at the start of a line and its arguments. The command is '' if there is none."""
    if " ".join(argv[:2]) in COMMANDS:
        return " ".join(argv[:2]), [*argv[2:]]
    name = "runs list" if argv[0] == "runs" else argv[0]
    return name if name in COMMANDS or name in OLD_COMMANDS else "", [*argv[1:]]


def overview() -> str:
    """Return a line for each command. The first line of a group has its name."""
    return "\n".join(
        f"{'' if number else group:<10}{name:<11}{does}"
        for group, names in GROUPS.items()
        for number, (name, does) in enumerate(names.items())
    )


def family_overview(family: str) -> str:
    """Return a line for each command of two words that begins with `family`."""
    return "\n".join(f"  {family} {name:<10}{does}" for name, does in FAMILIES[family].items())

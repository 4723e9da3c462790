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
        "play": "show a trained team of the zoo, without training",
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

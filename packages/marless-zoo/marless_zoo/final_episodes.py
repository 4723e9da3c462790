"""Plays the final evaluation of a team's training again. All its start states follow from the seed."""

from pathlib import Path

from marless.coordinator.core.opponents import evaluated_side
from marless.functions import codec
from marless.functions.encoding import from_json
from marless.functions.evaluator.handler import evaluate
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Address
from marless.infra.local.file_storage import FileStorage
from marless.reports import statistics
from marless.reports.policy import TeamFile
from marless.reports.statistics import FinalReturn
from marless_zoo.stored_team import FOLDER, POLICIES, StoredTeam

_STREAM = "final"


def final_returns(team: StoredTeam, folder: Path = FOLDER) -> FinalReturn:
    """Return the team's returns on the start states of its run's final evaluation.

    On a processor that computes the same bits, these are the stored returns. Raises `CorruptObject` if the file of the
    networks has another hash, and `MissingExtra` if the task needs kernels that this machine lacks.
    """
    storage, config = FileStorage(folder), team.configuration(folder)
    policies = Ref(key=f"{team.name}{POLICIES}", sha256=team.sha256, size=team.size)
    (header,) = codec.metadata(codec.fetch(storage, policies)).values()
    file = from_json(header, TeamFile)
    side = evaluated_side(config, file.spec)
    part_size, returns = config.evaluation.episodes_per_invocation, list[float]()
    for part, start in enumerate(range(0, team.returns.episodes, part_size)):
        task = EvaluateTask(
            address=Address(id=_STREAM, run=team.name, round=team.rounds, output=_STREAM, seed=team.seed),
            environment=config.evaluated_task,
            team=file.team,
            policies=(policies,),
            stream=_STREAM,
            part=part,
            episodes=min(part_size, team.returns.episodes - start),
            side=side.number if side else None,
        )
        returns += evaluate(task, storage)[1].returns
    return statistics.summary(returns)

"""A run of MLflow in a database on this machine, read back with its client."""

from functools import partial

import logged_lines
import msgspec
import pytest
from logged_lines import AGENTS, line, played
from shell import Shell

from marless.loggers.scalars import evaluation_point, points

mlflow = pytest.importorskip("mlflow")
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.packages
write = partial(logged_lines.write, "mlflow")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    with Shell() as shell:
        shell.cd(folder)
        shell.export(MLFLOW_TRACKING_URI=f"sqlite:///{folder}/mlflow.db")
        yield folder


@pytest.fixture
def client(store, shell, request):
    shell.export(MLFLOW_EXPERIMENT_NAME=request.node.name)
    return mlflow.MlflowClient()


def run_of(client, request):
    (run,) = client.search_runs([client.get_experiment_by_name(request.node.name).experiment_id])
    return run


def history(client, run, name):
    return [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name)]


def test_rounds_and_evaluations_are_at_their_environment_steps(tmp_path, client, request):
    final = evaluation_point(2, 200, 4.0, -0.5, {}, {})
    write(tmp_path, [*points(line(1), AGENTS), *points(line(2, evaluation=played(1, -2.0, -1.0)), AGENTS), final])
    run = run_of(client, request)
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert history(client, run, "return/train") == [(100, -3.0), (200, -6.0)]
    assert history(client, run, "return/agent_1") == [(100, -2.0), (200, -4.0)]
    assert history(client, run, "return/eval") == [(100, -1.5), (200, -0.5)]
    # 1,700,000,000 seconds after 1970 the run began, and the first round ended 2 seconds later.
    first = client.get_metric_history(run.info.run_id, "return/train")[0]
    assert first.timestamp == 1_700_000_002_000


def test_continued_mlflow_log_has_every_point_once(tmp_path, client, request):
    write(tmp_path, [point for number in (1, 2) for point in points(line(number), AGENTS)])
    # Of a round that was trained again before its commit the times differ, and it is there already.
    write(tmp_path, [point for number in (1, 2, 3) for point in points(line(number, seconds=7.0), AGENTS)])
    run = run_of(client, request)
    assert history(client, run, "return/train") == [(100, -3.0), (200, -6.0), (300, -9.0)]
    assert history(client, run, "time/seconds") == [(100, 2.0), (200, 4.0), (300, 7.0)]


def test_settings_and_policies_are_kept_after_raised_limit(tmp_path, client, request):
    (tmp_path / "policies.safetensors").write_bytes(b"weights")
    settings = {f"task.options.{number}": number for number in range(150)}
    write(tmp_path, points(line(1), AGENTS), [tmp_path / "policies.safetensors"], **settings, **{"stop.rounds": 4})
    write(tmp_path, points(line(1), AGENTS), **{"stop.rounds": 8})
    run = run_of(client, request)
    assert run.data.params == {"seed": "1", "stop.rounds": "4"} | {key: str(value) for key, value in settings.items()}
    assert [found.path for found in client.list_artifacts(run.info.run_id)] == ["policies.safetensors"]


def test_names_refused_by_mlflow_have_sign_replaced(tmp_path, client, request):
    found = msgspec.structs.replace(line(1), agent_returns=(1.0, 2.0))
    write(tmp_path, points(found, ("robot#1", "robot_1")), **{"task.options.a(b)": 3})
    run = run_of(client, request)
    assert history(client, run, "return/robot_1") == [(100, 2.0)]
    assert history(client, run, "return/robot_1_2") == [(100, 1.0)]
    assert history(client, run, "return/train") == [(100, -3.0)]
    assert run.data.params["task.options.a_b_"] == "3"

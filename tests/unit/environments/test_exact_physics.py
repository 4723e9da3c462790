"""Physics with the same bytes everywhere equals mpe2 except for last bits."""

import mpmath
import numpy as np
import pytest
from against_mpe2 import MODULES, crowded, random_actions, spread, tag, world_comm
from built_kernels import needs_kernels

from marless.coordinator.config.loading import load
from marless.functions.environments.base import EnvTask
from marless.functions.environments.mpe import exact_world, native_world
from marless.functions.environments.mpe.engine import Engine
from marless.functions.environments.mpe.exact_world import ExactWorld
from marless.functions.environments.mpe.world import Body
from marless.functions.environments.registry import make
from marless.functions.environments.task_names import EXACT_PHYSICS
from marless.reports.policy import same_task


def written(function, values):
    result = values.copy()
    function(result)
    return result


def near_and_far(most):
    """Numbers of either sign up to `most`, from the smallest on."""
    rng = np.random.default_rng(1)
    tiny = 10.0 ** rng.uniform(-20, 0, 100)
    return np.concatenate([rng.uniform(-most, most, 700), rng.uniform(-1, 1, 300), tiny, -tiny, [0.0, -0.0]])


@pytest.mark.parametrize(
    ("function", "exact", "inputs"),
    [
        (exact_world.exp, mpmath.exp, near_and_far(700)),
        (exact_world.log1p, mpmath.log1p, np.abs(near_and_far(1))),
        (lambda x: written(exact_world.softplus, x), lambda x: mpmath.log1p(mpmath.exp(x)), near_and_far(39)),
    ],
    ids=["exp", "log1p", "softplus"],
)
def test_functions_are_within_two_last_place_units(function, exact, inputs):
    with mpmath.workprec(160):
        for x, y in zip(inputs.tolist(), function(inputs).tolist(), strict=True):
            true = exact(mpmath.mpf(x))
            assert abs(true - mpmath.mpf(y)) <= 2 * float(np.spacing(float(true))), (x, y)


def test_distant_bodies_do_not_interact_and_nan_stays():
    assert not written(exact_world.softplus, np.array([-40.0, -1e300, -np.inf])).any()
    assert np.isnan(exact_world.exp(np.array([np.nan]))).all()


@needs_kernels
def test_the_kernels_have_the_bytes_of_numpy():
    inputs = near_and_far(700)
    np.testing.assert_array_equal(native_world.exp(inputs).view(np.int64), exact_world.exp(inputs).view(np.int64))


@needs_kernels
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("position", lambda array: array.astype(np.float32)),
        ("velocity", lambda array: array[:, :, :-1].copy()),
        ("relative", lambda array: array.swapaxes(0, 1)),
        ("_reach", lambda array: array[:-1]),
        ("_pairs", lambda array: array.astype(np.int32)),
        ("_pairs", lambda array: array + 10_000),
    ],
)
def test_an_array_that_c_would_misread_is_refused(name, change):
    class Changed(native_world.NativeWorld):
        def _prepare_contacts(self, bodies):
            super()._prepare_contacts(bodies)
            setattr(self, name, change(getattr(self, name)))

    bodies = tuple(Body(f"agent {number}", size=0.1, collides=True) for number in range(3))
    with pytest.raises(ValueError, match=r"in place of|index is not from"):
        Changed(bodies, (), 0, 0, 4)


@needs_kernels
@pytest.mark.parametrize("continuous", [False, True], ids=["choices", "numbers"])
@pytest.mark.parametrize("name", MODULES)
def test_kernel_world_has_bytes_of_numpy_world(name, continuous):
    """Two bodies stand on one point at first."""
    options = {EXACT_PHYSICS: True, "continuous_actions": continuous, "max_cycles": 9}
    native = make(EnvTask(name=name, options=options), 7)
    plain = Engine(native._scenario, 7, 9, continuous, ExactWorld)
    for each in (native, plain):
        each.reset(np.random.default_rng(3))
    state = crowded(native, np.random.default_rng(2))
    state.position[0] = 0.25
    rng = np.random.default_rng(1)
    with np.errstate(invalid="ignore"):
        for each in (native, plain):
            each.restore(state)
        for _ in range(12):
            actions = random_actions(native, rng)
            for each in (native, plain):
                each.step(actions)
            for one, other in zip(*(vars(each.snapshot()).values() for each in (native, plain)), strict=True):
                np.testing.assert_array_equal(one, other)
                np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


@pytest.mark.parametrize("case", [spread(4), tag(2, 3, 3), world_comm(2, 4, 1, 2, 2)], ids=str)
def test_crowd_moves_like_mpe2_except_last_bits(case):
    exact = make(EnvTask(name=case.name, agents=case.agents, options={**case.options, EXACT_PHYSICS: True}), 30)
    rng, plain = np.random.default_rng(2), case.engine(30)
    for each in (plain, exact):
        each.reset(np.random.default_rng(3))
    state = crowded(plain, rng)
    for each in (plain, exact):
        each.restore(state)
    for _ in range(3):
        actions = random_actions(plain, rng)
        steps = [each.step(actions) for each in (plain, exact)]
        states = [each.snapshot() for each in (plain, exact)]
        np.testing.assert_allclose(states[1].position, states[0].position, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(states[1].velocity, states[0].velocity, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(steps[1].rewards, steps[0].rewards, rtol=1e-11, atol=1e-13)


def test_native_runs_have_exact_physics_by_default():
    settings = ["algorithm.engine=native", "task.options.max_cycles=10"]
    assert load(None, settings).task.options == {"max_cycles": 10, EXACT_PHYSICS: True}
    assert load(None, [*settings, f"task.options.{EXACT_PHYSICS}=false"]).task.options[EXACT_PHYSICS] is False
    for other in (["algorithm.engine=numpy"], ["algorithm.engine=native", "task.name=toy/signal"]):
        assert not load(None, other).task.options


def test_policies_of_either_physics_play_each_other():
    plain = EnvTask(name="mpe/simple_tag", options={"num_good": 2})
    exact = EnvTask(name="mpe/simple_tag", options={"num_good": 2, EXACT_PHYSICS: True})
    assert same_task(plain, exact) and not same_task(plain, EnvTask(name="mpe/simple_tag", options={"num_good": 1}))

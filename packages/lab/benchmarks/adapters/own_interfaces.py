"""Plain loops over VMAS, OpenSpiel's Hanabi, Melting Pot and Overcooked, which have different interfaces."""

from collections.abc import Callable
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.adapters.plan import SEED, Plan
from benchmarks.adapters.raw import Stepper


def vmas_balance(plan: Plan) -> Stepper:
    """VMAS's own batch of environments. Ended environments are reset one by one, or all at once."""
    vmas, torch = import_module("vmas"), import_module("torch")
    num_envs = len(plan.actions[0][0])
    environment = vmas.make_env(
        "balance", num_envs=num_envs, continuous_actions=False, max_steps=100, terminated_truncated=True
    )
    actions = [[torch.tensor(column) for column in chosen[0].T] for chosen in plan.actions]

    def play() -> None:
        """Plays the plan once."""
        environment.reset(seed=SEED)
        for chosen in actions:
            *_, terminated, truncated, _ = environment.step([column.clone() for column in chosen])
            ended = terminated | truncated
            if ended.all():
                environment.reset()
            else:
                for row in torch.nonzero(ended).flatten():
                    environment.reset_at(int(row))

    return Stepper(num_envs * len(actions), play)


def hanabi(plan: Plan) -> Stepper:
    """OpenSpiel's game of two players, who both see it after every turn. Its cards differ from the plan's cards. If the
    planned move is illegal, the first legal move is played."""
    game = import_module("pyspiel").load_game("hanabi", {"players": 2, "observation_type": "card_knowledge"})
    moves = [chosen[0][0].tolist() for chosen in plan.actions]

    def play() -> None:
        """Plays the plan once."""
        rng = np.random.default_rng(SEED)
        state = _dealt(game.new_initial_state(), rng)
        for chosen in moves:
            player, legal = state.current_player(), state.legal_actions()
            state.apply_action(chosen[player] if chosen[player] in legal else legal[0])
            state = _dealt(game.new_initial_state() if state.is_terminal() else state, rng)
            for seen in range(2):
                state.observation_tensor(seen)

    return Stepper(len(moves), play)


def _dealt(state: Any, rng: np.random.Generator) -> Any:
    while state.is_chance_node():
        outcomes, chances = zip(*state.chance_outcomes(), strict=True)
        state.apply_action(outcomes[rng.choice(len(outcomes), p=chances)])
    return state


def coins(plan: Plan) -> Stepper:
    """Melting Pot's substrate, which the package itself builds again at every reset."""
    package = import_module("meltingpot.substrate")
    environment = package.build("coins", roles=package.get_config("coins").default_player_roles)
    episodes = [*plan.episodes()]

    def play() -> None:
        """Plays the plan once."""
        environment.reset()
        for episode in episodes:
            for actions in episode:
                environment.step(actions)
            environment.reset()

    return Stepper(len(plan.actions), play)


def kitchen(image: bool) -> Callable[[Plan], Stepper]:
    """Overcooked's cramped room: the package's transition, and its features or its image of every state."""

    def raw(plan: Plan) -> Stepper:
        """The loop of a plan."""
        np.Inf = np.inf  # type: ignore[attr-defined]  # the package's planner asks for it
        with redirect_stderr(StringIO()):
            gridworld = import_module("overcooked_ai_py.mdp.overcooked_mdp").OvercookedGridworld
            named = import_module("overcooked_ai_py.mdp.actions").Action.ALL_ACTIONS
            planner = import_module("overcooked_ai_py.planning.planners").MotionPlanner
        grid = gridworld.from_layout_name("cramped_room")
        planned = SimpleNamespace(motion_planner=planner(grid, grid.get_counter_locations()))
        episodes = [[tuple(named[action] for action in step) for step in episode] for episode in plan.episodes()]

        def look(state: Any) -> None:
            grid.lossless_state_encoding(state, 400) if image else grid.featurize_state(state, planned)

        def play() -> None:
            """Plays the plan once."""
            for episode in episodes:
                state = grid.get_standard_start_state()
                look(state)
                for actions in episode:
                    state, _ = grid.get_state_transition(state, actions)
                    look(state)

        return Stepper(len(plan.actions), play)

    return raw

"""Wrong names and options of the games in C are refused in one line."""

import pytest
from built_kernels import needs_kernels

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import BadRequest

pytestmark = needs_kernels
ROOM = "overcooked/cramped_room"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lbf/xyz", {}, "lbf/xyz is no task of level-based foraging. Write it as .*, such as lbf/8x8-2p-3f$"),
        ("lbf/2x8-2p-1f", {}, "the field is 2x8; write at least 3x3"),
        ("lbf/3x3-10p-1f", {}, "10 players do not fit into a field of 9 squares"),
        ("lbf/8x8-2p-3f", {"players": "x"}, "task.options.players"),
        ("lbf/8x8-2p-3f", {"horizon": 0}, "task.options.horizon"),
        ("lbf/8x8-2p-3f", {"field": 3}, "field"),
        ("lbf/8x8-2p-3f", {"min_player_level": 3}, "min_player_level is 3; it must be at most max_player_level, 2"),
        ("lbf/8x8-2p-3f", {"min_food_level": 3}, "at most the least sum of the three lowest levels of players, 2"),
        ("lbf/8x8-2p-3f", {"min_food_level": 3, "max_food_level": 2}, "it must be at most max_food_level, 2"),
        ("rware/xyz", {}, "is no task of the warehouse. Write it as rware/.*, such as rware/tiny-2ag$"),
        ("rware/tiny-2agg", {}, "Write it as rware/"),
        ("rware/tiny-2ag", {"reward_type": "all"}, "task.options.reward_type"),
        ("rware/tiny-2ag", {"shelves": 3}, "shelves"),
        ("rware/tiny-2ag", {"shelf_columns": 2}, "task.options.shelf_columns is 2. It must be odd"),
        ("rware/tiny-2ag", {"request_queue_size": 32}, "it must be less than the number of shelves, 32"),
        ("rware/tiny-2ag", {"layout": "x.\nx"}, "task.options.layout has lines of several lengths"),
        ("rware/tiny-2ag", {"layout": "x.\nxy"}, "task.options.layout has 'y'"),
        ("rware/tiny-2ag", {"layout": "x.\nx."}, "task.options.layout has no goal"),
        ("rware/tiny-5ag", {"layout": "xx\ngg"}, "5 robots do not fit into a hall of 4 cells"),
        ("rware/tiny-2ag", {"msg_bits": 8, "joint_actions": True}, "there are 1,280 joint actions"),
        ("overcooked/cramped_rom", {}, "there is no layout 'cramped_rom' .*; nearest: overcooked/cramped_room"),
        ("overcooked/xyz", {}, "write it as overcooked/<layout>, such as overcooked/cramped_room$"),
        (f"{ROOM}_single", {}, "there is no layout 'cramped_room_single'"),
        (ROOM, {"observation": "picture"}, "task.options.observation"),
        (ROOM, {"shaping": -1}, "task.options.shaping"),
        (ROOM, {"shapping": 1}, "task.options.*shapping"),
        (ROOM, {"horizon": 0}, "task.options.horizon"),
        (ROOM, {"grid": "XPX|XSXX"}, "grid has empty rows, rows of different lengths"),
        (ROOM, {"grid": "XPSX|O12D|XX?X"}, r"grid has '\?'; tiles are"),
        (ROOM, {"grid": "XPSX|O12D|XX X"}, "grid has a free cell at its border"),
        (ROOM, {"grid": "XPSX|O11D|XXXX"}, "grid needs cook 1 and cook 2"),
        (ROOM, {"grid": "XPSX|X12D|XXXX"}, "grid needs a tile O or T"),
        ("smax/3n", {}, "smax/3n: SMAX has no map '3n'. Choose one of 3m"),
        ("smax/3m", {"scenario": "x"}, "smax/3m: task.options: there is no scenario here"),
        ("smax/3m", {"attack_mode": "farthest"}, "smax/3m: task.options.attack_mode"),
        ("smax/3m", {"max_steps": 0}, "smax/3m: task.options.max_steps"),
    ],
)
def test_a_wrong_task_is_refused_in_one_line(name, options, message):
    with pytest.raises(BadRequest, match=message) as refused:
        registry.make(EnvTask(name=name, options=options), 1)
    assert "\n" not in str(refused.value) and name in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lbf/8x8-2p-3f", "is 3, but the environment has 2 agents"),
        ("rware/tiny-2ag", "is 3, but the environment has 2 agents"),
        ("smax/5m_vs_6m", "smax/5m_vs_6m: task.agents is 3, but the map has 5 agents"),
    ],
)
def test_another_number_of_agents_is_refused(name, message):
    with pytest.raises(BadRequest, match=message):
        registry.make(EnvTask(name=name, agents=3), 1)

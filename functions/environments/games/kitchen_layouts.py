"""The layouts of overcooked-ai 1.1.0 (Carroll et al. 2019, MIT license): tiles, cooks and prices of soups.

Layouts for one or four cooks are left out. So is `tutorial_3`, because its bonus order pays infinity.
"""

import difflib
import re
from typing import NamedTuple

# The letters of tiles, by their numbers in C (`KitchenTile`): floor, counter, pot, onions, tomatoes, dishes, serving.
TILES = " XPOTDS"
MOST_CELLS = 400
_FORM = "overcooked/<layout>, such as overcooked/cramped_room"

# Rows from the top. The cooks are 1 and 2.
_GRIDS = {
    "asymmetric_advantages": "XXXXXXXXX|O XSXOX S|X   P 1 X|X2  P   X|XXXDXDXXX",
    "asymmetric_advantages_tomato": "XTXXXXXOX|D XOXTX S|X   P 1 X|X2  X   X|XXXSXDXXX",
    "bonus_order_test": "XXPXX|O  2T|X1  X|XDXSX",
    "bottleneck": "XXOXDXX|X 1X2 X|X  X  X|X     X|XSXXPPX",
    "centre_objects": "XXXXXXX|X  1  X|X P S X|X     X|X D O X|X  2  X|XXXXXXX",
    "centre_pots": "XXXOSSX|X  1  X|X P P X|X  2  X|XDDOXXX",
    "coordination_ring": "XXXPX|X 1 P|D2X X|O   X|XOSXX",
    "corridor": (
        "XXXXXOXXDXXXXX|X  1  XX  2  X|X     XX     X|X  XXXXXXXX  X|X            X|X  XXXXXXXX  X|X     XX     X"
        "|X     XX     X|XXXXXSXXPPXXXX"
    ),
    "counter_circuit": "XXXPDPXXX|X   2   X|X XXXXX X|X   1   X|XXXOSTXXX",
    "counter_circuit_o_1order": "XXXPPXXX|X  2   X|D XXXX S|X  1   X|XXXOOXXX",
    "cramped_corridor": "XTPXXXXSX|D      2X|XXXX XXXX|D      1X|XOPXXXXSX",
    "cramped_room": "XXPXX|O  2O|X1  X|XDXSX",
    "cramped_room_o_3orders": "XXPXX|O  2X|X1  X|XDXSX",
    "cramped_room_tomato": "XXPXX|O  2T|X1  X|XDXSX",
    "five_by_five": "XDPXX|X   S|O 2 X|X1  D|XOXPX",
    "forced_coordination": "XXXPX|O X1P|O2X X|D X X|XXXSX",
    "forced_coordination_tomato": "XXXPX|T X1P|O2X X|S X X|XXXDX",
    "inverse_marshmallow_experiment": "XOXXXXXXXXXOX|X     X     X|XXXX  D  XXXX|XXS 2 P 1 SXX|XXXXXTXTXXXXX",
    "large_room": "XXXPXXX|O    2O|X     X|X     X|X     X|X1    X|XDXXXSX",
    "long_cook_time": (
        "XOXXXXXXXXXXX|X XXXXXXXXXXX|X  1        X|X           P|X  2        X|X DXXXXXXXXXX|XSXXXXXXXXXXX"
    ),
    "m_shaped_s": "XPXXX|O X2O|X1  X|XDXSX",
    "marshmallow_experiment": "XXXXXXXXXXXXX|O   DTXTD   O|XX    P    XX|S   2 P 1   S|XXXXXTXTXXXXX",
    "marshmallow_experiment_coordination": "XXXXXXXXXXXOX|X    XTTX   X|XXX  P    XXX|S  2 P 1    X|XXXXDXTTXXXXX",
    "mdp_test": "XXPXX|O  2O|T1  T|XDPSX",
    "pipeline": "XXXPDPXXX|X       X|X XXXXX X|X X     X|X XXXXX X|X  1 2  X|XXXOSOXXX",
    "scenario1_s": "XXOXDXX|X 1X2 X|X  X  X|X     X|XSXXPPX",
    "scenario2": "XXXXXOXXXX|S        O|D    1 2 X|XXXXXXPXXX",
    "scenario2_s": "XXOXXXX|S     O|D 1 2 X|XXXPXXX",
    "scenario3": "XXXXXOXXXX|S     XXPX|X    1   X|D XXXXXX X|X     2  O|XXXXXXXXXX",
    "scenario4": "XXXXXOXXXX|S      XPX|D    1   X|XXXXXXXX X|XXXXXX2  O|XXXXXXXXXX",
    "schelling": "XXSPDXX|X  1  X|X  X  X|O     O|X  X  X|X  2  X|XXDPSXX",
    "schelling_s": "XSPDX|X 1 X|O   O|X 2 X|XDPSX",
    "simple_o": "XXPXX|X  2X|X1  O|XXDSX",
    "simple_o_t": "XXPXX|T  2T|X1  O|XXDSX",
    "simple_tomato": "XXPXX|T  2T|X1  O|XXDSX",
    "small_corridor": "XXXXXOXDXXXXX|X  1  X  2  X|X  XXXXXXX  X|X           X|XSXXXXXXXXPPX",
    "soup_coordination": "XXXDTXOXXXX|X    X    X|S 2  P  1 S|X    X    X|XXXXOXTDXXX",
    "tutorial_0": "XXPXXXX|O   2 S|XXPDXXX|O   1 S|XXXXXXX",
    "tutorial_1": "XXPXXXX|O   2 S|XTPDXXX|O   1 S|XXXXXXX",
    "tutorial_2": "XXPXXXX|O   2 S|XTPDXXX|O   1 S|XXXXXXX",
    "unident": "XXXXXXXXXXX|O XXSXOXX S|X    P  1 X|X2   P    X|XXXXDXDXXXX",
    "you_shall_not_pass": "XXXXXSSSXXXXX|XXTSSS SSSOXX|P 1       2 P|XXDSSSSSSSDXX",
}

# The pay for a soup, and the steps that it cooks.
_Price = tuple[int, int]
_USUAL: _Price = (20, 20)


class Menu(NamedTuple):
    """The soups that are ordered, each by the letters of its onions and tomatoes. Without `orders` all are.

    A `bonus` soup pays twice. `ordered` are the prices of the orders. Without them a price is the sum over ingredients.
    """

    orders: str = "ooo"
    bonus: str = ""
    onion: _Price | None = None
    tomato: _Price = (0, 0)
    ordered: tuple[_Price, ...] = ()

    def price(self, soup: str) -> _Price:
        """The pay for a soup that is served, and the steps that it cooks."""
        orders, pay, steps = self.orders.split(), *_USUAL
        if self.ordered:
            pay, steps = dict(zip(orders, self.ordered, strict=True)).get(soup, _USUAL)
        elif self.onion is not None:
            prices = [self.onion if letter == "o" else self.tomato for letter in soup]
            pay, steps = sum(pay for pay, _ in prices), sum(steps for _, steps in prices)
        is_ordered = not orders or soup in orders
        return pay * is_ordered * (2 if soup in self.bonus.split() else 1), steps


# Of an onion and of a tomato, in layouts for studies with humans.
_PRICES: tuple[_Price, _Price] = ((21, 15), (13, 7))
_MENUS = {
    "asymmetric_advantages_tomato": Menu("ooo oot ttt t", "ttt oot", *_PRICES),
    "bonus_order_test": Menu("ooo ttt ot", "ot ttt", ordered=((10, 20), (20, 15), (15, 10))),
    "counter_circuit": Menu("ott oot ot", "ot", *_PRICES),
    "cramped_corridor": Menu("t ooo ttt ot tt", "ot t tt", *_PRICES),
    "cramped_room_o_3orders": Menu("ooo oo o", ordered=((20, 20), (9, 20), (4, 20))),
    "cramped_room_tomato": Menu("ooo ttt ot", "ot", onion=(15, 10), tomato=(10, 10)),
    "forced_coordination_tomato": Menu("ooo ott oot ttt", ordered=(*[(10, 10)] * 3, (15, 10))),
    "inverse_marshmallow_experiment": Menu("o t oot ooo ttt", "ooo", *_PRICES),
    "long_cook_time": Menu("ooo oo o", ordered=((10, 100),) * 3),
    "marshmallow_experiment": Menu("ooo ttt", "ooo", *_PRICES),
    "marshmallow_experiment_coordination": Menu("ooo ttt", "ooo", *_PRICES),
    "mdp_test": Menu("o ooo oot", "oot", onion=(10, 2), tomato=(5, 2)),
    "pipeline": Menu("ooo oo o", "oo", *_PRICES),
    "simple_o": Menu(ordered=((20, 5),)),
    "simple_o_t": Menu("ooo ttt", ordered=((20, 5), (15, 5))),
    "simple_tomato": Menu("ttt"),
    "soup_coordination": Menu("oot ttt ot t o", "t oot ttt o", *_PRICES),
    "tutorial_0": Menu("ooo", "", *_PRICES),
    "tutorial_1": Menu("ott ot", "", *_PRICES),
    "tutorial_2": Menu("", "", *_PRICES),
    "you_shall_not_pass": Menu("o t oot ott ttt oo", "oot ott", *_PRICES),
}


class Layout(NamedTuple):
    """A kitchen before its first step.

    `rows` are tiles without cooks. `cooks` are columns, rows and facings (north, south, east, west). `soups` are the
    onions in pots, by column and row.
    """

    rows: tuple[str, ...]
    cooks: tuple[tuple[int, int, int], ...]
    menu: Menu
    soups: dict[tuple[int, int], int]


def layout_of(task: str, name: str, grid: str) -> Layout:
    """Return the layout `name`, with the tiles and cooks of `grid` unless it is empty. Raises `ValueError`."""
    if name not in _GRIDS:
        nearest = ", ".join(f"overcooked/{match}" for match in difflib.get_close_matches(name, _GRIDS))
        hint = f"nearest: {nearest}" if nearest else f"write it as {_FORM}"
        raise ValueError(f"there is no layout '{name}' for {task}; {hint}")
    rows = tuple(row.strip() for row in re.split(r"[|\n]", grid.strip() or _GRIDS[name]))
    if fault := _fault_of(rows):
        raise ValueError(f"{task}: task.options.grid {fault}")
    cooks = tuple((row.index(number), y, 0) for number in "12" for y, row in enumerate(rows) if number in row)
    tiles = tuple(re.sub("[12]", " ", row) for row in rows)
    menu = _MENUS.get(name, Menu())
    # The only layout that begins otherwise.
    if name == "tutorial_1" and not grid:
        return Layout(tiles, ((4, 3, 3), (4, 1, 0)), menu, {(2, 2): 2})
    return Layout(tiles, cooks, menu, {})


def _fault_of(rows: tuple[str, ...]) -> str:
    text = "".join(rows)
    if not all(rows) or len({*map(len, rows)}) > 1 or len(text) > MOST_CELLS:
        return f"has empty rows, rows of different lengths, or more than {MOST_CELLS} cells"
    if strange := {*text} - {*TILES, "1", "2"}:
        return f"has {min(strange)!r}; tiles are X, P, O, T, D, S and a space, and cooks are 1 and 2"
    if {*rows[0], *rows[-1], *(row[0] for row in rows), *(row[-1] for row in rows)} & {*" 12"}:
        return "has a free cell at its border"
    if text.count("1") != 1 or text.count("2") != 1:
        return "needs cook 1 and cook 2, each once"
    missing = [kinds for kinds in ("P", "D", "S", "OT") if not {*kinds} & {*text}]
    return f"needs a tile {' or '.join(missing[0])}" if missing else ""

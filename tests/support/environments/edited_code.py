"""A folder with code of a user in each form, that is edited at random: a task with it names the files that it read."""

import hashlib
import random
import threading
from pathlib import Path

DATA = "edited_package/level.txt"
FILES = {
    "edited_module.py": "from edited_helper import VALUE as HELPER\nVALUE = {}\n",
    "edited_helper.py": "VALUE = {}\n",
    "edited_package/__init__.py": "VALUE = {}\n",
    DATA: "{}",
    "edited_program.py": "from edited_rubric import VALUE\nprint({}, VALUE)\n",
    "edited_rubric.py": "VALUE = {}\n",
}
PLAYER = """
import json, os, subprocess, sys, time
from pathlib import Path
def handle(body, blobs):
    deed = json.loads(body)
    time.sleep(deed["sleeps"])
    import edited_module, edited_package
    level = (Path(edited_package.__file__).parent / "level.txt").read_text()
    values = [edited_module.VALUE, edited_module.HELPER, edited_package.VALUE, int(level)]
    if deed["program"]:
        program = subprocess.run([sys.executable, "edited_program.py"], check=True, capture_output=True)
        values += map(int, program.stdout.split())
    if deed["dies"]:
        os._exit(1)
    return json.dumps(values).encode()
"""


def text_of(name, value):
    return FILES[name].format(value)


def digest(name, value):
    """The first digits of the SHA-256 of the file with the value."""
    return hashlib.sha256(text_of(name, value).encode()).hexdigest()[:12]


def write(name, value):
    """Saves a file as an editor does: another file takes its place."""
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text_of(name, value))
    new.replace(path)


def begin():
    Path("edited_player.py").write_text(PLAYER)
    for name in FILES:
        write(name, 1)


class Editor(threading.Thread):
    """Edits random files at random moments until the block ends. `edits` has each as name and value."""

    def __init__(self, seed, most_s, names):
        super().__init__()
        self._random, self._most_s, self._over = random.Random(seed), most_s, threading.Event()
        self._names = names
        self.edits = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()

    def run(self):
        while not self._over.wait(self._random.uniform(0, self._most_s)):
            edit = self._random.choice(self._names), self._random.randint(1, 3)
            write(*edit)
            self.edits.append(edit)

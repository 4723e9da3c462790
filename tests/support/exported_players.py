"""The programs that are written together with exported policies, in this process."""

import importlib.util

from marless.exports.destination import write_folder
from marless.exports.policy_files import policy_files


def exported(loaded, format_, folder):
    write_folder(folder, policy_files(loaded, format_, {}))
    place = importlib.util.spec_from_file_location("play", folder / "play.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module.Player(folder)

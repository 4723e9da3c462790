"""What a user's shell gives to a command: the current folder, environment variables, where Python finds modules."""

import importlib
import os
import sys
from contextlib import ExitStack, chdir


class Shell(ExitStack):
    """Changes of the shell; where it ends, all is as before."""

    def cd(self, folder):
        self.enter_context(chdir(folder))

    def export(self, **variables):
        self._restore_later(variables)
        os.environ.update(variables)

    def unset(self, *names):
        self._restore_later(names)
        for name in names:
            os.environ.pop(name, None)

    def import_from(self, folder):
        """Modules of the folder come first, as with `PYTHONPATH`."""
        self.callback(sys.path.__setitem__, slice(None), sys.path.copy())
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()

    def _restore_later(self, names):
        for name in names:
            if name in os.environ:
                self.callback(os.environ.__setitem__, name, os.environ[name])
            else:
                self.callback(os.environ.pop, name, None)

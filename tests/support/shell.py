"""The surroundings of a command that a user controls: a folder, environment variables, a keyboard, Python modules."""

import importlib
import os
import sys
from contextlib import ExitStack, chdir


class Shell(ExitStack):
    """Changes of the shell. Where it ends, all is as before."""

    def cd(self, folder):
        self.enter_context(chdir(folder))

    def export(self, **variables):
        self._restore_later(os.environ, variables)
        os.environ.update(variables)

    def unset(self, *names):
        self._restore_later(os.environ, names)
        for name in names:
            os.environ.pop(name, None)

    def import_from(self, folder):
        self.callback(sys.path.__setitem__, slice(None), sys.path.copy())
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()

    def uninstall(self, *packages):
        for package in packages:
            self.forget(*(name for name in sys.modules if name.startswith(f"{package}.")))
        self.provide(dict.fromkeys(packages))

    def provide(self, modules):
        """Python finds these modules by their names, as if they were installed."""
        self._restore_later(sys.modules, modules)
        sys.modules.update(modules)

    def forget(self, *modules):
        self._restore_later(sys.modules, modules)
        for name in modules:
            sys.modules.pop(name, None)

    def type(self, text):
        """Standard input is a terminal, and the user types this."""
        keyboard, terminal = os.openpty()
        self.callback(setattr, sys, "stdin", sys.stdin)
        self.callback(os.close, keyboard)
        sys.stdin = self.enter_context(os.fdopen(terminal))
        os.write(keyboard, text.encode())

    def _restore_later(self, mapping, keys):
        for key in keys:
            if key in mapping:
                self.callback(mapping.__setitem__, key, mapping[key])
            else:
                self.callback(mapping.pop, key, None)

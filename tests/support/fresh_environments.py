"""Virtual environments for tests of an installed program, and commands in them."""

import json
import os
import subprocess
import sys
import sysconfig


class FreshEnvironment:
    """A folder outside the source tree with a virtual environment in `.venv`, and commands that run there."""

    def __init__(self, folder, python=sys.executable, *, pip=False):
        self.folder = folder
        pip_option = [] if pip else ["--without-pip"]
        subprocess.run([python, "-m", "venv", *pip_option, folder / ".venv"], check=True)

    def borrow_packages(self):
        """Makes the packages of the environment that runs the tests importable, after those installed here."""
        (self.site / "borrowed.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")

    def write_script(self, name, body):
        script = self.folder / ".venv/bin" / name
        script.write_text(f"#!{self.folder}/.venv/bin/python\n{body}")
        script.chmod(0o755)

    def __call__(self, commands, timeout=300, **variables):
        """The standard output of shell commands. Raises `AssertionError` when one fails."""
        path = f"{self.folder}/.venv/bin{os.pathsep}{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            ["bash", "-euc", commands],
            cwd=self.folder,
            env={**inherited, "PATH": path, **variables},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def site(self):
        return self.folder / f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

    @property
    def account(self):
        """The account file, present while an emulated account runs here."""
        return self.folder / "runs/.emulated/account.json"

    def summary(self, run):
        return json.loads((self.folder / "runs" / run / "summary.json").read_text())

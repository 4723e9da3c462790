"""Worker processes of this machine, with a log of every invocation in the run's folder."""

from dataclasses import replace

from marless.backends import LocalBackend


class LoggedInvoker:
    """Passes everything on, and writes down which function was invoked for which task."""

    def __init__(self, invoker, path):
        self._invoker, self._path = invoker, path

    def invoke(self, attempt):
        with self._path.open("a") as file:
            print(attempt.function, attempt.id, attempt.number, file=file)
        self._invoker.invoke(attempt)

    def wait(self, timeout_s):
        return self._invoker.wait(timeout_s)

    def close(self):
        self._invoker.close()


class LoggedBackend(LocalBackend):
    name = "logged"
    summary = "worker processes, with a log of invocations"

    def open(self, folder, workers, read_only=False, deployment_ref=None):
        connection = super().open(folder, workers, read_only)
        return replace(connection, invoker=LoggedInvoker(connection.invoker, folder / "invocations.log"))


BACKEND = LoggedBackend()

"""A logger that keeps the best evaluation in a text file."""

from marless.loggers import Logger


class BestFile:
    def __init__(self, path):
        self._path, self._best = path, float("-inf")

    @property
    def where(self):
        return str(self._path)

    def write(self, point):
        value = point.scalars.get("return/eval", self._best)
        if value > self._best:
            self._best = value
            self._path.write_text(f"{value:.2f} after {point.env_steps} steps\n")

    def finish(self, artefacts, status):
        pass

    def close(self):
        pass


class BestLogger(Logger):
    name = "best"
    summary = "the best evaluation, best.txt in the run's folder"

    def open(self, run):
        return BestFile(run.folder / "best.txt")


LOGGER = BestLogger()

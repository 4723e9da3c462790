"""A picture that a notebook shows at the end of a cell. This module is imported only when a picture is drawn."""

from io import BytesIO

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure without a window, so that a notebook shows it once, even without ``%matplotlib inline``."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()

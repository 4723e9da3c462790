"""A picture that a notebook shows where a cell ends with it; imported with matplotlib, when a picture is drawn."""

from io import BytesIO

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that no window knows, so that a notebook shows it once, with ``%matplotlib inline`` or without."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png")
        return picture.getvalue()

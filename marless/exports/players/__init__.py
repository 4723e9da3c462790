"""The programs that are written beside exported policies and play them; they import nothing of this project."""

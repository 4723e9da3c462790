"""The programs that are written next to exported policies and play them. They import nothing of this project."""

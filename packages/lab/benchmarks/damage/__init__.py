"""Damaged files, policies and configurations, and what every command says of them.

    python -m benchmarks.damage files --number 300
    python -m benchmarks.damage policies --number 300
    python -m benchmarks.damage configurations

Every command must end with exit code 0, 1 or 2 and at most three lines of errors, within a minute and 500 MB; and an
answer that differs from that for the undamaged run must be one that `marless runs verify` warns of.
"""

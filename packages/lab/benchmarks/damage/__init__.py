"""Damaged files, policies and configurations, and every command's answer about them.

    python -m benchmarks.damage files --number 300
    python -m benchmarks.damage policies --number 300
    python -m benchmarks.damage configurations

Every command must end with exit code 0, 1 or 2 and at most three lines of errors, within a minute and 500 MB. If its
answer differs from the undamaged run's answer, `marless runs verify` must warn.
"""

"""A run's results for other programs: policies that play without MARLess, and episodes as data."""

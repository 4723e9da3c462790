"""Measurements of the system beside what stands without it; nothing here is part of the package."""

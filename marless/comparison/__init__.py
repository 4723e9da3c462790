"""Trained runs against one another over seeds: which settings are better, and how sure that is."""

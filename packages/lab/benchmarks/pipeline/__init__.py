"""The gain of a round if tasks wait only for their inputs: real runs on real processes, and a prediction."""

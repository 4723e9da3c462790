"""What a round gains when nothing waits for more than what it reads: real runs on real processes, and a prediction."""

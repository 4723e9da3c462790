"""What a run leaves for its reader: statistics of returns, evaluation files, the learning curve."""

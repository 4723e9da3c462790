"""What a resource that is shared action by action gains over slots that are reserved: real runs, and a prediction."""

"""What governs the runs of a study that go on in the cloud: who is at work, how wide, and for how many dollars."""

"""Help for tests, ours and our users: an in-process server, a clock to turn, a disk that fails."""

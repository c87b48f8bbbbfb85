"""`python -m jetstream …` is the same as `jetstream …`."""

from jetstream.cli.main import main

if __name__ == "__main__":
    main()

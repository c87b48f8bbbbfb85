"""What all tests share."""

from hypothesis import settings

# A busy machine is not a bug: examples have no deadline, the whole test has one.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

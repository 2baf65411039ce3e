"""Random tests print the example that fails; they are not timed, because machines are noisy."""

from hypothesis import settings

settings.register_profile("holdfast", deadline=None, print_blob=True)
settings.load_profile("holdfast")

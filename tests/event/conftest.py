"""How hypothesis runs here: without deadlines, because a busy machine is no broken promise."""

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

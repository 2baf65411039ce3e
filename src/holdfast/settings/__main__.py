"""``python -m holdfast.settings`` prints ``docs/settings.md``."""

import sys

from holdfast.settings.reference import markdown

sys.stdout.write(markdown())

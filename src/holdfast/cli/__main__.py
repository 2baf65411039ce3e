"""``python -m holdfast.cli``, for where the ``holdfast`` script is not on the path."""

from holdfast.cli.app import main

main()

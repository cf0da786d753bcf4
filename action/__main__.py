"""`python -m action`, the container's entry point."""

import sys

from action.cli import main

sys.exit(main())

"""`python -m neaptide.cli` is `neaptide`."""

import sys

from neaptide.cli.app import main

sys.exit(main())

"""`python -m neaptide` is `neaptide`."""

import sys

from neaptide.cli import main

sys.exit(main())

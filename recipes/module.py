"""Run a module as `python -m` does, but import nothing from the user's directory.

`python -P -m` does the same from Python 3.11 on.
"""

import runpy
import sys

del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

"""Run a module as `python -m` does, but import nothing from the user's directory, or from this one.

`python -P -m` does the same from Python 3.11 on.
"""

import sys

sys.path = [path for path in sys.path if path != __file__.rpartition("/")[0]]
import runpy

del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

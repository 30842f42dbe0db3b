"""The recipes' Python files are scripts beside the shell code, not a package."""

import sys
from pathlib import Path

RECIPES = Path(__file__).parents[2] / "recipes"
sys.path[:0] = [str(RECIPES / "lib"), str(RECIPES / "demo")]

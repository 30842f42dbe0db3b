"""--precision, which commands that search have in common."""

from __future__ import annotations

import argparse

PRECISIONS = ("float32", "bfloat16")  # nn/cpu_kernels.py has them, but imports torch


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Declare --precision."""
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="float32",
        help="of the search's matrix products; bfloat16 is faster on a processor that has AMX or "
        "AVX512-BF16, and changes some outputs (default: float32)",
    )

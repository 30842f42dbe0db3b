"""Say which PyTorch there is, and end with one line if it does not see the GPUs of this node.

python -m fairseq_aiayn.runs.check_torch --gpus 8
"""

from __future__ import annotations

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, required=True, metavar="N", help="needed; 0 on a CPU")
    needed = parser.parse_args().gpus

    import torch  # takes seconds; --help does not need it

    there = torch.cuda.device_count() if needed else 0
    print(f"torch {torch.__version__}")
    for index in range(there):
        print(f"GPU {index}: {torch.cuda.get_device_name(index)}")
    if there < needed:
        raise SystemExit(
            f"check_torch: PyTorch must see {needed} GPUs, torch {torch.__version__} sees {there}"
        )


if __name__ == "__main__":
    main()

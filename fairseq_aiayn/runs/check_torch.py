"""Say which PyTorch there is, and end with one line if it does not see the GPUs of this node.

python -m fairseq_aiayn.runs.check_torch --gpus 8
"""

from __future__ import annotations

from fairseq_aiayn.text import script


def say(needed: int) -> None:
    """Print the version and the GPUs; raises ValueError if PyTorch sees fewer than needed."""
    import torch  # takes seconds; --help does not need it

    there = torch.cuda.device_count() if needed else 0
    print(f"torch {torch.__version__}")
    for index in range(there):
        print(f"GPU {index}: {torch.cuda.get_device_name(index)}")
    if there < needed:
        raise ValueError(f"PyTorch must see {needed} GPUs, torch {torch.__version__} sees {there}")


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument(
            "--gpus", type=int, required=True, metavar="N", help="needed; 0 on a CPU"
        )
        say(parser.parse_args().gpus)


if __name__ == "__main__":
    main()

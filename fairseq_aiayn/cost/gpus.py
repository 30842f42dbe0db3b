"""Arithmetic rates of GPUs: the paper's sustained figures, and peaks of later GPUs.

A peak is the manufacturer's figure: dense, without sparsity; 16-bit products summed in 32 bits. No
program reaches it, so do not compare a cost or utilization based on a peak with one based on the
paper's sustained figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fairseq_aiayn.paper import SUSTAINED_TFLOPS


@dataclass(frozen=True)
class Gpu:
    """A GPU with its rates, both sustained or both peaks.

    The rates are TFLOPS in single precision and, if the GPU has tensor cores, in 16 bits on these.
    """

    name: str
    rate: Literal["sustained", "peak"]
    single_tflops: float
    tensor_tflops: float | None
    source: str


NVIDIA = "https://www.nvidia.com"
IMAGES = "https://images.nvidia.com"

PAPERS = [
    Gpu(name, "sustained", tflops, None, "Attention Is All You Need, footnote 5")
    for name, tflops in SUSTAINED_TFLOPS.items()
]
LATER = [
    Gpu(
        "V100-SXM2",
        "peak",
        15.7,
        125,
        "NVIDIA V100 Tensor Core GPU, data sheet,"
        f" {IMAGES}/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf",
    ),
    Gpu(
        "T4",
        "peak",
        8.1,
        65,
        "NVIDIA T4 Tensor Core GPU, data sheet,"
        f" {NVIDIA}/content/dam/en-zz/Solutions/Data-Center/tesla-t4/"
        "t4-tensor-core-datasheet-951643.pdf",
    ),
    Gpu(  # 40 GB and 80 GB, SXM and PCIe alike
        "A100",
        "peak",
        19.5,
        312,
        "NVIDIA A100 Tensor Core GPU, data sheet,"
        f" {NVIDIA}/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
        "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
    ),
    Gpu(
        "RTX-3090",
        "peak",
        35.6,
        71,
        "NVIDIA Ampere GA102 GPU Architecture, whitepaper,"
        f" {NVIDIA}/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf",
    ),
    Gpu(
        "RTX-4090",
        "peak",
        82.6,
        165.2,
        "NVIDIA Ada GPU Architecture, whitepaper,"
        f" {IMAGES}/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf",
    ),
    # For these GPUs, NVIDIA prints the 16-bit rate with sparsity, which is twice the dense rate.
    Gpu(
        "L4",
        "peak",
        30.3,
        242 / 2,
        f"NVIDIA L4 Tensor Core GPU, specifications, {NVIDIA}/en-us/data-center/l4/",
    ),
    Gpu(
        "L40S",
        "peak",
        91.6,
        362.05,  # printed beside 733 with sparsity
        f"NVIDIA L40S, specifications, {NVIDIA}/en-us/data-center/l40s/",
    ),
    Gpu(
        "H100-SXM",
        "peak",
        67,
        1979 / 2,
        f"NVIDIA H100 Tensor Core GPU, specifications, {NVIDIA}/en-us/data-center/h100/",
    ),
    Gpu(
        "H200-SXM",
        "peak",
        67,
        1979 / 2,
        f"NVIDIA H200 Tensor Core GPU, specifications, {NVIDIA}/en-us/data-center/h200/",
    ),
]
GPUS: dict[str, Gpu] = {gpu.name: gpu for gpu in (*PAPERS, *LATER)}


def find_gpu(name: str) -> Gpu:
    """Return the GPU called `name`, in any case; raises ValueError if there is none."""
    gpu = GPUS.get(name.upper())
    if gpu is None:
        raise ValueError(f"unknown GPU {name!r}: the GPUs are {', '.join(GPUS)}")
    return gpu

"""The loss of a model that is trained by several processes."""

from argparse import Namespace

import pytest
import torch
from building import dictionaries_task, dictionary
from fairseq.distributed import ModuleProxyWrapper
from torch.nn.parallel import DistributedDataParallel

from fairseq_aiayn.paper import TINY
from fairseq_aiayn.plugin.architectures import apply_row
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.training import AiaynLabelSmoothedCrossEntropy


@pytest.fixture
def one_process_of_many():
    """A process group of one process, which waits for gradients as a group of many does."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("options", [{}, {"untied_embeddings": True}], ids=["tied", "untied"])
def test_every_gradient_comes_once(one_process_of_many, options):
    """Breaks if the loss uses a matrix that the forward pass of the model does not use."""
    args = Namespace(arch="aiayn_tiny", encoder_layers=1, encoder_embed_dim=8, d_k=4, d_v=4)
    args = Namespace(**vars(args), encoder_ffn_embed_dim=8, encoder_attention_heads=2, **options)
    args.max_source_positions = args.max_target_positions = 1024
    apply_row(TINY, args)
    task = dictionaries_task(dictionary("abcdefgh"))
    model = AiaynModel.build_model(args, task)
    criterion = AiaynLabelSmoothedCrossEntropy(task, sentence_avg=False, label_smoothing=0.1)
    wrapped = ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=True))
    tokens = torch.tensor([[4, 5, 6, 2]])
    net_input = {"src_tokens": tokens, "src_lengths": None, "prev_output_tokens": tokens.roll(1)}
    sample = {"net_input": net_input, "target": tokens, "ntokens": 4}
    for _ in range(2):
        loss, _, _ = criterion(wrapped, sample)
        loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())

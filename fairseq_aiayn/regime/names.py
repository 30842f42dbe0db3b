"""fairseq's names for the paper's symbols.

For each size, fairseq has one option for the encoder and another for the decoder.
"""

ENCODER_AND_DECODER = {
    "layers": "N",
    "embed_dim": "d_model",
    "ffn_embed_dim": "d_ff",
    "attention_heads": "h",
}
SIDES = ("encoder", "decoder")
SIZE_ARGUMENTS = tuple(f"{side}_{name}" for side in SIDES for name in ENCODER_AND_DECODER)
OURS = "aiayn_"  # begins every name that this plugin registers with fairseq
# Which embedding matrices are one, as nn/transformer.py calls it, by the argument that is true
SHARING = {
    "share_all_embeddings": "all",
    "share_decoder_input_output_embed": "target",
    "untied_embeddings": "none",
}


def argument(option: str) -> str:
    """Return the name of the argument that an option sets: --max-len-a sets max_len_a."""
    return option.removeprefix("--").replace("-", "_")


def option(name: str) -> str:
    """Return an argument's name as a command-line option, such as --encoder-embed-dim."""
    return "--" + name.replace("_", "-")

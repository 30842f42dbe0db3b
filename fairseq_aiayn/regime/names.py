"""fairseq's names for the paper's symbols; no other module translates between the two.

For each symbol, fairseq has one option for the encoder and another for the decoder.
"""

ENCODER_AND_DECODER = {
    "layers": "N",
    "embed_dim": "d_model",
    "ffn_embed_dim": "d_ff",
    "attention_heads": "h",
}
SIDES = ("encoder", "decoder")


def argument(option: str) -> str:
    """Return the name of the argument that an option sets: --max-len-a sets max_len_a."""
    return option.removeprefix("--").replace("-", "_")


def option(name: str) -> str:
    """Return an argument's name as a command-line option, such as --encoder-embed-dim."""
    return "--" + name.replace("_", "-")

"""fairseq's names for the paper's symbols: the one place where the two meet.

fairseq has an option for the encoder and another for the decoder where the paper has one symbol.
"""

ENCODER_AND_DECODER = {
    "layers": "N",
    "embed_dim": "d_model",
    "ffn_embed_dim": "d_ff",
    "attention_heads": "h",
}
SIDES = ("encoder", "decoder")


def option(name: str) -> str:
    """Return the command-line spelling of an argument's name: --encoder-embed-dim."""
    return "--" + name.replace("_", "-")

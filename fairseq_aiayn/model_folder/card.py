"""The README.md of a model folder: what the model is, how it was trained, how to use it."""

from __future__ import annotations

from collections.abc import Mapping

from fairseq_aiayn.model_folder.config import Config

NOT_TOLD = "not recorded"


def model_card(config: Config, parameters: int, use: str = "") -> str:
    """Return the text of the card; `use` says how to use the model, by default with `aiayn`."""
    options = config.options
    sizes = ", ".join(f"{name} {value:g}" for name, value in vars(config.sizes).items() if value)
    search = (
        f"beam {config.search.beam}, α {config.search.alpha:g}, output at most "
        f"{config.search.extra_length} tokens longer than the input"
    )
    training = {
        "--max-tokens": options.get("max_tokens", NOT_TOLD),
        "--update-freq": str(options.get("update_freq", NOT_TOLD)).strip("[]"),
        "processes": options.get("distributed_world_size", NOT_TOLD),
        "updates": f"at most {options.get('max_update', NOT_TOLD)}",
        "seed": options.get("seed", NOT_TOLD),
        "initial values": options.get("initialization", NOT_TOLD),
    }
    told = {name: config.told.get(name, NOT_TOLD) for name in ("data", "scores", "licence")}
    command = "translate" if config.task == "translation" else "parse --model"
    use = use or f"    aiayn {command} THIS_FOLDER < text\n"
    return f"""# {config.source_lang} to {config.target_lang}, row {config.row}

A Transformer as in [Attention Is All You Need](https://arxiv.org/abs/1706.03762), for
{config.task}: {sizes}; {parameters:,} parameters, stored in {config.precision}.

{use}
{_listed(told)}
## Training

{_listed(training)}
## Search and text

{_listed({"search": search, "text": config.text.pieces.replace("_", " ")})}"""


def _listed(facts: Mapping[str, object]) -> str:
    return "".join(f"- {name}: {value}\n" for name, value in facts.items())

"""fairseq-hydra-train imports a plugin after Hydra has composed the options: wrong ones are
tracebacks, and what an architecture sets is not in the log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from fairseq_aiayn.configuration import NAMED_GROUPS, flat_options, plain, plain_configuration
from fairseq_aiayn.repairs.options import name_languages, require_matching, unlike
from fairseq_aiayn.repairs.program import HYDRA, command_name, hydra_names
from fairseq_aiayn.settings import OURS, option


def completing_early(add_defaults: Callable, cfg: DictConfig) -> None:
    """Complete a configuration, once the plugin is imported, so that the log of a training has also
    what an architecture of ours sets. For fairseq-hydra-train, which checks nothing before, raises
    ValueError as `require_known` and `require_matching` do."""
    if command_name(sys.argv[0]) != HYDRA:
        add_defaults(cfg)
        complete_model(cfg)
        return
    try:
        require_known(cfg)
        add_defaults(cfg)
        complete_model(cfg)
        name_languages(getattr(cfg.task, "_name", ""), cfg.task)
        require_matching(flat_options(plain_configuration({"cfg": cfg})))
    except OmegaConfBaseException as error:  # of a value of another kind, or none
        line = str(error).splitlines()[0]
        raise ValueError(f"{option(str(error.full_key).split('.')[-1])}: {line}") from error
    finally:
        hydra_names.update(names_in_groups(plain(cfg)))


def require_known(cfg: DictConfig) -> None:
    """Raise ValueError for a name that nothing is registered by, or an option that it has not."""
    models = {name: MODEL_DATACLASS_REGISTRY.get(m) for name, m in ARCH_MODEL_NAME_REGISTRY.items()}
    known = {"model": models, "task": dict.fromkeys(TASK_REGISTRY) | TASK_DATACLASS_REGISTRY}
    for group in NAMED_GROUPS:
        if group in REGISTRIES:
            parts = REGISTRIES[group]
            known[group] = dict.fromkeys(parts["registry"]) | parts["dataclass_registry"]
        chosen = cfg.get(group)
        name = str(chosen.get("_name") if isinstance(chosen, DictConfig) else chosen)
        if chosen is None:
            ours = [name for name in known[group] if name.startswith(OURS)]
            raise ValueError(f"{group}._name: expected a name, such as {ours[0]}, got none")
        if name not in known[group]:
            raise ValueError(f"{group}._name: {unlike(name, [*known[group]])}")
        if known[group][name] and isinstance(chosen, DictConfig):
            options = [field.name for field in fields(known[group][name])]
            for wrong in {*chosen} - {*options}:
                raise ValueError(f"{group}: {unlike(wrong, options)}")


def names_in_groups(cfg: Mapping[str, Any]) -> dict[str, str]:
    """Return what a configuration calls the options of commands: --lr is optimization.lr."""
    names = {
        option(name): f"{group}.{name}"
        for group, options in cfg.items()
        if isinstance(options, Mapping)
        for name in options
    }
    return names | {option(name): f"{group}._name" for group, name in NAMED_GROUPS.items()}


def complete_model(cfg: DictConfig) -> None:
    """Apply the architecture if it is ours, and write references and choices out."""
    if isinstance(cfg.model, DictConfig) and str(cfg.model._name).startswith(OURS):
        with open_dict(cfg.model), open_dict(cfg):
            ARCH_CONFIG_REGISTRY[cfg.model._name](cfg.model)
            options = OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True)
            del cfg["model"]  # omegaconf 2.0 takes none of another type in its place
            cfg.model = OmegaConf.create(options)
        OmegaConf.set_struct(cfg.model, True)  # else omegaconf 2.0 has None for what is not there

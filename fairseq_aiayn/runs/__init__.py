"""Run directories as the recipes leave them: settings, logs, curves, seeds, differences."""

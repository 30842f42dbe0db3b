"""Run directories as the recipes leave them: settings, logs, curves, seeds, differences.

report/, diagnosis/, inference/ and cli/ read runs with it; recipes write settings and progress. It
imports scores, treebank, settings, paper, configuration, files and console.
"""

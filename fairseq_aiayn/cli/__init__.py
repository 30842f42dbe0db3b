"""The `aiayn` command: its subcommands, grouped by what they work on, put together by main.py.

A module declares options, calls other rooms and prints. It may import anything, what is heavy only
where a subcommand runs; nothing but the package's own entry point imports it.
"""

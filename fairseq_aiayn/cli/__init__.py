"""The `aiayn` command: its subcommands, grouped by what they work on, put together by main.py."""

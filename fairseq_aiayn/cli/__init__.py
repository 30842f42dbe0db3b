"""The `aiayn` command: one module per subcommand, put together by main.py."""

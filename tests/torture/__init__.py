"""A campaign of random attacks on every command, `make torture`; not part of the test suite."""

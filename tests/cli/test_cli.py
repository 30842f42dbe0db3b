"""What every `aiayn` subcommand has in common: help, errors, exit status, start-up."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import fairseq_aiayn
from fairseq_aiayn.cli import main as cli

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(fairseq_aiayn.__file__).parents[1])}
ENVIRONMENT |= {"PYTHONUNBUFFERED": ""}  # set, it would hide what is written late
AIAYN = f"{sys.executable} -m fairseq_aiayn"


@pytest.fixture
def run_command(monkeypatch):
    def run(function: Callable[[object], None]) -> int:
        module = SimpleNamespace(declare_do_it=lambda parser: None, run_do_it=function)
        monkeypatch.setitem(sys.modules, "fairseq_aiayn.cli.work", module)
        monkeypatch.setattr(cli, "COMMANDS", {"do-it": "work"})
        return cli.main(["do-it"])

    return run


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("first\nsecond \x1b[31m"), "first second \\x1b[31m"),
        (OverflowError("int too large to convert to float"), "int too large to convert to float"),
        (RuntimeError("can't allocate memory: 9 bytes"), "there is not enough memory for this"),
        (RuntimeError("CUDA out of memory. Tried"), "there is not enough memory for this"),
        (OSError("cannot read"), "cannot read"),
        (FileNotFoundError(2, "No", "out of memory.log"), "out of memory.log: No"),
        (ValueError("a: out of memory"), "a: out of memory"),
        (MemoryError(), "there is not enough memory for this"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run_command, capsys, error, message):
    assert run_command(Mock(side_effect=error)) == 2
    assert capsys.readouterr() == ("", f"aiayn do-it: {message}\n")


def test_an_interrupt_is_quiet_and_a_fault_has_a_traceback(run_command, capsys, monkeypatch):
    assert run_command(Mock(side_effect=KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyError):
        run_command(Mock(side_effect=KeyError("no such attribute")))
    monkeypatch.setenv("AIAYN_DEBUG", "1")
    with pytest.raises(ValueError, match="steps"):
        run_command(Mock(side_effect=ValueError("steps must be at least 1, got 0")))


@pytest.mark.parametrize(
    "command", ["user-dir", "linearize a --words new", "delinearize b --words b --report new"]
)
def test_a_full_disk_is_no_traceback(command, tmp_path):
    (tmp_path / "a").write_text("(S (NN dog))\n")
    (tmp_path / "b").write_text("dog\n")
    words = ["bash", "-c", f"{AIAYN} {command} > /dev/full"]
    options = {"capture_output": True, "text": True, "env": ENVIRONMENT, "cwd": tmp_path}
    done = subprocess.run(words, check=False, **options)
    line = f"aiayn {command.split()[0]}: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, line)
    assert not (tmp_path / "new").exists()


def test_a_reader_that_leaves_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    command = [*AIAYN.split(), "user-dir"]
    done = subprocess.run(command, check=False, stdout=writer, stderr=-1, env=ENVIRONMENT)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_output_is_utf_8_in_any_locale_and_a_files_name_is_its_bytes(run_command, monkeypatch):
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="latin-1"))
    assert run_command(lambda arguments: print("Grüße 好", os.fsdecode(b"\xff.png"))) == 0
    assert output.getvalue() == "Grüße 好 ".encode() + b"\xff.png\n"


@pytest.mark.parametrize(
    "program", ["main.build_parser(); main.main(['rows'])", "main.main(['cost', 'base'])"]
)
def test_a_command_imports_no_other_and_none_needs_torch_to_start(program):
    heavy = "{'torch', 'fairseq', 'sacrebleu', 'numpy', 'pydantic'}"
    loaded = "{name for name, module in sys.modules.items() if module}"
    modules = f"[name for name in {loaded} if name in {heavy} or '.cli.' in name]"
    blocked = "import sys; sys.modules['fairseq'] = None"  # as a program blocks a module
    program = f"{blocked}; from fairseq_aiayn.cli import main; {program}; print({modules})"
    printed = subprocess.check_output([sys.executable, "-c", program], text=True, env=ENVIRONMENT)
    imported = set(re.findall(r"'([\w.]+)'", printed.splitlines()[-1]))
    needed = set(cli.COMMANDS.values()) | {"options"} if "build" in program else {"configurations"}
    assert imported == {f"fairseq_aiayn.cli.{name}" for name in needed | {"main"}}


def test_every_command_explains_itself_with_an_example(capsys):
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            cli.main([name, "--help"])
        assert f"aiayn {name}" in capsys.readouterr().out.partition("options:")[2]


def test_help_and_completion_know_every_command_and_the_version_what_runs(capsys):
    printed = []
    for words in (["--help"], ["--print-completion", "bash"], ["--version"], []):
        with pytest.raises(SystemExit, match="0"):
            cli.main(words)
        printed.append(capsys.readouterr().out)
    for name in cli.COMMANDS:
        assert re.search(rf"^    {name}(?: |$)", printed[0], re.MULTILINE)
        assert f"_shtab_aiayn_{name.replace('-', '_')}_" in printed[1]
    assert re.search(r"\bfairseq(-fixed)? \d.*, torch \d.*, Python \d", printed[2])
    assert printed[3] == printed[0] and "The usual order:" in printed[0]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("translate --x\x1b[31m\u202e", "--x\\x1b[31m\\u202e"),
        ("attention --source caf\udce9", "argument --source: expected UTF-8, got 'caf\\udce9'"),
        ("export run --output new --licence caf\udce9", "argument --licence: expected UTF-8"),
        ("bleu --target-lang \udced", "argument --target-lang: expected UTF-8"),
    ],
)
def test_a_wrong_argument_is_shown_as_it_is(words, shown, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(words.split())
    line = capsys.readouterr().err.splitlines()[-1]
    assert shown in line and line.isprintable()


def test_a_wrong_command_ends_with_the_nearest(capsys):
    assert cli.main(["tranlsate"]) == 2
    assert capsys.readouterr().err == "aiayn: no command 'tranlsate', try aiayn translate\n"

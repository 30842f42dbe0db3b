"""fairseq's commands without the nine seconds that each takes to import.

A server imports fairseq once. Small programs called fairseq-train, aiayn and so on, which stand
first on PATH, hand it their arguments, environment, working directory and standard streams. It
forks a process that runs the command as its own process would. The program ends as the command
does, passes signals on, and takes the command with it when it is killed.

    environment = os.environ | {"PATH": f"{fork_server.programs()}:{os.environ['PATH']}"}

`python SCRIPT` runs in the same way; other uses of python start a new one.
"""

import array
import atexit
import contextlib
import copy
import gc
import importlib
import logging
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
import weakref
from functools import cache
from pathlib import Path
from uuid import uuid4

from patience import PATIENCE

MODULES = {f"fairseq-{name}": f"fairseq_cli.{name}" for name in ("preprocess", "train", "validate")}
MODULES |= {f"fairseq-{name}": f"fairseq_cli.{name}" for name in ("generate", "interactive")}
MODULES["fairseq-hydra-train"] = "fairseq_cli.hydra_train"
COMMANDS = (*MODULES, "aiayn", "torchrun", "python")
HAS_GPU = "LD_PRELOAD" in os.environ
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TEMPORARY = tempfile.gettempdir()  # of the server; tests have their own

# It must start fast: no site packages, and of the standard library only what is written in C.
PROGRAM = """#!{python} -SEs
import _signal, _socket, array, marshal, posix, sys
name = sys.argv[0].rpartition("/")[2]
script = sys.argv[1:] and not sys.argv[1].startswith("-")
if name == "python" and not script:
    posix.execv({python!r}, [{python!r}, *sys.argv[1:]])
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
order = marshal.dumps([name, sys.argv[1:], posix.getcwd(), posix.environ])
streams = _socket.SCM_RIGHTS, array.array("i", [0, 1, 2])
for number in {forwarded!r}:
    _signal.signal(number, lambda number, frame: server.send(bytes([number])))
server.sendmsg([len(order).to_bytes(8, "big"), order], [(_socket.SOL_SOCKET, *streams)])
status = int(server.recv(8) or 255)
if status < 0:
    if -status != _signal.SIGKILL:
        _signal.signal(-status, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -status)
posix._exit(status)
"""


@cache
def begin(preload: str = "") -> Path:
    """Start the server for all workers of a run; return the directory of its programs."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    run = os.environ["PYTEST_XDIST_TESTRUNUID"] if worker else uuid4().hex
    directory = Path(TEMPORARY) / f"fork-server-{run}-{Path(preload).stem}"
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:  # another worker starts it
        pass
    else:
        start(directory, os.getppid() if worker else os.getpid(), preload)
    return directory


@cache
def programs(preload: str = "") -> Path:
    """Return the directory of the programs, once their server answers; with the library of the
    simulated GPU, which is loaded before all others, it is another one."""
    directory = begin(preload)
    deadline = time.monotonic() + PATIENCE
    while not (directory / "socket").exists():
        assert time.monotonic() < deadline, "the fork server does not start"
        time.sleep(0.05)
    assert (directory / "socket").is_socket(), (directory / "log").read_text()
    return directory


def start(directory: Path, user: int, preload: str) -> None:
    """Start the server of a directory; both are gone when process `user` has ended."""
    program = PROGRAM.format(
        python=sys.executable,
        address=str(directory / "socket"),
        forwarded=[int(number) for number in FORWARDED],
    )
    for name in COMMANDS:
        (directory / name).write_text(program)
        (directory / name).chmod(0o755)
    with (directory / "log").open("w") as log:
        subprocess.Popen(
            [sys.executable, __file__, directory, str(user)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ
            | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1", "TMPDIR": TEMPORARY}
            | ({"LD_PRELOAD": preload} if preload else {}),
            start_new_session=True,
        )


def serve(directory: Path, user: int) -> None:
    """Import fairseq, then fork a process for each order, as long as process `user` lives."""
    try:
        import_fairseq()
    except BaseException:
        (directory / "socket").touch()  # nobody needs to wait for it
        raise
    if sys.dont_write_bytecode:  # each fork would compile the package anew
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(directory / "code")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(directory / "unready"))
    listening.listen(64)
    os.rename(directory / "unready", directory / "socket")
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # also in a fork, until it is a group
    ended = os.pidfd_open(user)
    running: dict[socket.socket, tuple[int, int]] = {}  # client: process, a file that its end opens
    while True:
        awaited = [ended, listening, *running, *(its_end for _, its_end in running.values())]
        ready, _, _ = select.select(awaited, [], [])
        if ended in ready:
            break
        for client, (child, its_end) in [*running.items()]:
            if its_end in ready:
                del running[client]
                os.close(its_end)
                tell(client, child)
            elif client in ready:
                numbers = client.recv(16)  # none: it was killed, and takes its command with it
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, numbers[-1] if numbers else signal.SIGKILL)
        if listening in ready:
            client, _ = listening.accept()
            with contextlib.suppress(EOFError, IndexError):  # it was killed before
                child = forked(client)
                running[client] = child, os.pidfd_open(child)
    shutil.rmtree(directory)


def import_fairseq() -> None:
    """Import what commands import, but not the commands: those set up logging when they are
    imported, and each fork does that anew."""
    import torch

    torch.set_num_threads(1)  # a fork has no threads of its parent's
    names = ["torch._dynamo", "torch.distributed.run"]  # by every optimizer; by torchrun
    names += ["matplotlib.pyplot", "nltk", "sacrebleu", "sacremoses", "sentencepiece"]
    names += ["fairseq_aiayn.cli.main", "fairseq_aiayn.cli.configurations"]
    for name in (*MODULES.values(), *names):
        importlib.import_module(name)
    for module in MODULES.values():
        del sys.modules[module]
    remember_overrides()
    logging.getLogger().handlers.clear()
    logging.getLogger().setLevel(logging.WARNING)
    for finalizer in weakref.finalize._registry:
        finalizer.atexit = False  # no fork needs to take torch apart at its end
    gc.freeze()  # nor to look for garbage in what was here before it


def remember_overrides() -> None:
    """Let Hydra parse each override once: a fairseq command has 280, nearly all of them defaults.
    To compose them takes as long as all else of a short training."""
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from hydra.core.config_store import ConfigStore
    from hydra.core.override_parser.overrides_parser import OverridesParser as Parser

    parsed = cache(lambda text, rule, parse=Parser.parse_rule: parse(Parser.create(), text, rule))
    Parser.parse_rule = lambda _, text, rule: copy.copy(parsed(text, rule))
    ConfigStore.__deepcopy__ = lambda store, memo: store  # what it hands out is a copy already
    words = ["data", "--arch", "transformer_tiny", "--task", "translation"]
    with warnings.catch_warnings():  # each fork says them
        warnings.simplefilter("ignore")
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        convert_namespace_to_omegaconf(args)


def forked(client: socket.socket) -> int:
    """Fork a process that runs what a client orders; raises EOFError or IndexError for no order."""
    size, control, _, _ = client.recvmsg(8, socket.CMSG_SPACE(3 * 4))
    streams = array.array("i", control[0][2])
    order = client.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    name, words, directory, variables = marshal.loads(order)
    child = os.fork()
    with contextlib.suppress(ProcessLookupError):  # the child may have ended already
        os.setpgid(child, child)  # child and parent do it: neither knows which one is first
    if not child:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # its copies, and connections of others
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  (a pipe; the log had a position)
        os.chdir(directory)
        environment = {os.fsdecode(key): os.fsdecode(value) for key, value in variables.items()}
        os._exit(execute(name, words, environment))
    for stream in streams:
        os.close(stream)
    return child


def tell(client: socket.socket, child: int) -> None:
    """Tell a client how its command ended."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # processes that it left behind
    with client, contextlib.suppress(OSError):
        client.sendall(b"%d" % status)


def execute(name: str, words: list[str], environment: dict[str, str]) -> int:
    """Run a command as its own process would, and return its exit status."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # is the server's; a test has its own TMPDIR
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    if HAS_GPU:  # also for processes that it starts
        sys.executable = str(Path(sys.argv[1]) / "python")
    sys.argv = [f"/bin/{name}", *words]
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        if HAS_GPU:
            sys.path.insert(0, str(Path(__file__).with_name("gpu")))
            importlib.import_module("simulated_gpu").install()
        status = run(name, words)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return status or 0


def run(name: str, words: list[str]) -> int | None:
    """Call the function that the command's own script calls."""
    if name == "aiayn":
        return importlib.import_module("fairseq_aiayn.cli.main").main()
    for module in [*filter(lambda name: name.startswith("fairseq_aiayn"), sys.modules)]:
        del sys.modules[module]  # --user-dir must find none
    if name == "torchrun":
        return importlib.import_module("torch.distributed.run").main()
    if name == "python":
        sys.argv = words
        if "PYTHONSAFEPATH" not in os.environ:
            sys.path.insert(0, os.path.dirname(words[0]))
        runpy.run_path(words[0], run_name="__main__")
        return 0
    command = importlib.import_module(MODULES[name])
    if not logging.getLogger().handlers:  # importing fairseq itself sets it up like this
        logging.basicConfig(level=logging.DEBUG)
    return command.cli_main()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))

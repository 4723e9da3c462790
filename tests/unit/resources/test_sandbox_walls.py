"""An untrusted program tries to leave the sandbox, and each attempt fails. Skipped without bubblewrap."""

import ctypes
import errno
import json
import os
import platform
import sys
import time
from contextlib import closing
from textwrap import dedent

import pytest
from installed_commands import needs_bubblewrap

from marless.functions.resources.port import ResourceCall
from marless.functions.resources.serving.kinds.kind import NoAnswer
from marless.functions.resources.serving.kinds.registry import begin
from marless.functions.resources.serving.sandbox import ERROR_BYTES, FILE_BYTES, Sandbox, SandboxError
from marless.functions.resources.settings import Resource

pytestmark = needs_bubblewrap

MB = 1 << 20
SANDBOX = Sandbox("bubblewrap", timeout_s=30, memory_mb=128)
SECRET = b"planted-7f3a91"
# The system calls add_key and keyctl (x86-64, aarch64), and KEYCTL_JOIN_SESSION_KEYRING of linux/keyctl.h.
ADD_KEY, KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
JOIN_SESSION, SESSION = 1, -3

# Calls of the C library that reach over the walls, or hold memory outside all limits.
CALLS = {
    "memfd_create": "libc.memfd_create(b'x', 0)",
    "shmget": "libc.shmget(0, 1 << 20, 0o1600)",
    "semget": "libc.semget(0, 1, 0o1600)",
    "msgget": "libc.msgget(0, 0o1600)",
    "mq_open": "rt.mq_open(b'/x', os.O_CREAT | os.O_RDWR, 0o600, None)",
    "ptrace": "libc.ptrace(16, 1, 0, 0)",
    "process_vm_readv": "libc.process_vm_readv(1, pointer, 1, pointer, 1, 0)",
    "process_vm_writev": "libc.process_vm_writev(1, pointer, 1, pointer, 1, 0)",
    "unshare a user": "libc.unshare(0x10000000)",
    "unshare mounts": "libc.unshare(0x00020000)",
    "setns": "libc.setns(os.open('/proc/self/ns/user', os.O_RDONLY), 0)",
    "mount": "libc.mount(b'x', b'/tmp', b'tmpfs', 0, None)",
    "umount": "libc.umount2(b'/tmp', 2)",
    "chroot": "libc.chroot(b'/tmp')",
    "name_to_handle_at": "libc.name_to_handle_at(-100, b'/tmp', pointer, pointer, 0)",
    "fanotify_init": "libc.fanotify_init(0, 0)",
    "vmsplice": "libc.vmsplice(os.pipe()[1], pointer, 1, 0)",
    "keyctl": f"libc.syscall({KEYCTL}, 0, -3, 0)",
    "add_key": f"libc.syscall({ADD_KEY}, b'user', b'x', b'x', 1, -3)",
    "pidfd_send_signal": "libc.syscall(424, 0, 0, None, 0)",
    "io_uring_setup": "libc.syscall(425, 8, pointer)",
    "open_tree": "libc.syscall(428, -100, b'/tmp', 1)",
    "fsopen": "libc.syscall(430, b'tmpfs', 0)",
    "pidfd_open": "libc.syscall(434, 1, 0)",
    "clone3": "libc.syscall(435, pointer, 88)",
    "pidfd_getfd": "libc.syscall(438, 0, 0, 0)",
    "mount_setattr": "libc.syscall(442, -100, b'/', 0, pointer, 32)",
    "memfd_secret": "libc.syscall(447, 0)",
    "a call of a later kernel": "libc.syscall(600)",
    "fork": "libc.fork()",
    "vfork": "libc.vfork()",
    "clone with name spaces": f"libc.syscall({56 if platform.machine() == 'x86_64' else 220}, 0x10020011, 0, 0, 0, 0)",
    "network": "libc.socket(2, 1, 0)",
    "network of IPv6": "libc.socket(10, 1, 0)",
    "kernel's sockets": "libc.socket(16, 3, 0)",
    "packets": "libc.socket(17, 3, 0)",
    "ciphers": "libc.socket(38, 5, 0)",
    "the host of a virtual machine": "libc.socket(40, 1, 0)",
}
TRY_CALLS = """
import ctypes, json, os
libc, rt = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("librt.so.1", use_errno=True)
pointer, errors = ctypes.create_string_buffer(4096), {}
for name, call in %r.items():
    ctypes.set_errno(0)
    errors[name] = ctypes.get_errno() if eval(call) == -1 else 0
print(json.dumps(errors))
"""


def test_no_call_reaches_over_the_walls():
    output, error = SANDBOX.run(TRY_CALLS % CALLS)
    assert not error
    refusals = {errno.EPERM, errno.ENOSYS, errno.EAGAIN, errno.EAFNOSUPPORT}
    assert {name: number for name, number in json.loads(output).items() if number not in refusals} == {}


# Ways to more memory than 128 MB. Each says how much it has got, in MB, and gives it back.
MEMORY = {
    "mapped alone": "[mmap.mmap(-1, 16 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in count()]",
    "mapped and shared": "[mmap.mmap(-1, 16 * MB) for _ in count()]",
    "the zero device": "[mmap.mmap(os.open('/dev/zero', os.O_RDWR), 16 * MB) for _ in count()]",
    "files of /tmp": "[open(f'/tmp/{n}', 'wb', 0).write(bytes(MB)) for n in count()]",
    "deleted files": "[deleted(n) for n in count()]",
    "holes that are filled": "[os.posix_fallocate(os.open(f'/tmp/h{n}', 66), 0, MB) for n in count()]",
    "/dev/shm": "[open(f'/dev/shm/{n}', 'wb', 0).write(bytes(MB)) for n in count()]",
    "/proc/1": "[open(f'/proc/1/{n}', 'wb', 0).write(bytes(MB)) for n in count()]",
    "pipes": "[filled(os.pipe()) for _ in count()]",
    "threads": "[threading.Thread(target=time.sleep, args=(1,), daemon=True).start() for _ in count()]",
}
TRY_MEMORY = """
import fcntl, itertools, json, mmap, os, threading, time
MB, taken, most = 1 << 20, {}, 0

def count():
    for n in range(4096):
        global most
        most = n
        yield n

def deleted(n):
    descriptor = os.open(f"/tmp/d{n}", os.O_CREAT | os.O_RDWR)
    os.unlink(f"/tmp/d{n}")
    if os.write(descriptor, bytes(MB)) < MB:
        raise OSError

def filled(pipe):
    fcntl.fcntl(pipe[1], 1031, MB)
    os.set_blocking(pipe[1], False)
    os.write(pipe[1], bytes(MB))

for name, way in %r.items():
    most, before = 0, set(os.listdir("/proc/self/fd"))
    try:
        eval(way)
    except (OSError, MemoryError, RuntimeError):
        pass
    taken[name] = most
    for descriptor in set(os.listdir("/proc/self/fd")) - before:
        try:
            os.close(int(descriptor))
        except OSError:
            pass
    for file in os.listdir("/tmp"):
        os.unlink("/tmp/" + file)
print(json.dumps(taken), flush=True)
os._exit(0)
"""


def test_no_way_exceeds_memory_limit():
    output, error = SANDBOX.run(TRY_MEMORY % MEMORY)
    assert not error
    taken = json.loads(output)
    assert taken.keys() == MEMORY.keys()
    assert (
        taken["mapped alone"] < 8 and taken["mapped and shared"] < 8 and taken["the zero device"] < 8
    )  # of 16 MB each
    for name in ("files of /tmp", "deleted files", "holes that are filled"):
        assert 0 < taken[name] <= FILE_BYTES // MB
    assert taken["/dev/shm"] == taken["/proc/1"] == 0
    assert taken["pipes"] < 128  # it may have 256 descriptors
    assert taken["threads"] < 4096


# Answer each line (a secret, spelt backwards) with the files that contain the secret, and with all writable places.
HUNTER = """
import os, sys

LIBRARIES = ("/usr", "/proc/sys", "/proc/self/task", os.path.dirname(os.path.dirname(os.__file__)))

def readable(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in LIBRARIES]
        for file in files:
            yield os.path.join(folder, file)

def holds(path, secret):
    try:
        with open(path, "rb", buffering=0) as file:
            os.set_blocking(file.fileno(), False)
            return secret in (file.read(1 << 20) or b"")
    except (OSError, MemoryError, ValueError):
        return False

def log_can_be_changed():
    try:
        os.ftruncate(2, 0)
        return True
    except OSError:
        return False

for line in sys.stdin:
    secret = bytes(reversed(line.strip().encode()))
    places = [path for path in readable("/") if path.count("/mem") == 0 and holds(path, secret)]
    others = [f"{name} {word}" for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()
              for word in ("environ", "cmdline", "mem", "maps", "fd") if os.path.exists(f"/proc/{name}/{word}")]
    variables = [name for name, value in os.environ.items() if secret.decode() in value]
    print(places, others, variables, log_can_be_changed(), flush=True)
"""


@pytest.fixture
def planted(shell, tmp_path):
    """A folder with a command, where a secret lies in each place that is the user's."""
    libc = ctypes.CDLL(None)
    libc.syscall(KEYCTL, JOIN_SESSION, None)
    libc.syscall(ADD_KEY, b"user", SECRET, SECRET, ctypes.c_size_t(len(SECRET)), SESSION)
    shell.export(AWS_SECRET_ACCESS_KEY=SECRET.decode(), MARLESS_RESOURCE_JUDGE_TOKEN=SECRET.decode())
    (tmp_path / ".env").write_bytes(SECRET)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "notes").write_bytes(SECRET)
    command = tmp_path / "tool.py"
    command.write_text(f"#!{os.path.realpath('/usr/bin/env')} -S {interpreter()} -S\n{HUNTER}")
    command.chmod(0o755)
    return tmp_path


def interpreter():
    return os.path.realpath(f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}")


def hunt(folder, **settings):
    resource = Resource(command=str(folder / "tool.py"), sandbox="bubblewrap", memory_mb=512, **settings)
    with closing(begin("judge", resource)) as judge:
        return judge.answer(ResourceCall(SECRET[::-1]), 1).decode()


def test_a_command_finds_no_secret_of_the_user(planted):
    assert hunt(planted) == "[] [] [] False"


def test_command_finds_files_named_in_setting(planted):
    paths = (str(planted / ".env"), str(planted / "runs"))
    assert hunt(planted, sandbox_paths=paths) == f"{[paths[0], paths[1] + '/notes']} [] [] False"


def test_a_path_that_is_not_there_is_named(planted):
    with pytest.raises(SandboxError, match=r"sandbox_paths names 'no/such', and there is no such file"):
        hunt(planted, sandbox_paths=("no/such",))


def test_program_reads_files_named_by_judge(tmp_path):
    words = tmp_path / "words"
    words.write_text("yes")
    sandbox = Sandbox("bubblewrap", 20, 128, (str(words),))
    look = f"import os; print(open({str(words)!r}).read(), os.listdir({str(tmp_path)!r}))"
    assert sandbox.run(look).output == b"yes ['words']\n"


def test_a_command_whose_interpreter_is_hidden_says_so(tmp_path, capfd):
    (tmp_path / "python").symlink_to(interpreter())
    command = tmp_path / "tool"
    command.write_text(f"#!{tmp_path / 'python'} -S\nprint(input())")
    command.chmod(0o755)
    with (
        closing(begin("judge", Resource(command=str(command), sandbox="bubblewrap"))) as judge,
        pytest.raises(NoAnswer, match="exit status 1"),
    ):
        judge.answer(ResourceCall(b"1"), 1)
    said, deadline = "", time.monotonic() + 20
    while "\n" not in said and time.monotonic() < deadline:  # a thread copies it
        said += capfd.readouterr().err
    assert "tool cannot be started: No such file or directory; sandbox_paths names interpreters" in said


def test_command_errors_reach_log_up_to_bound(tmp_path, capfd):
    command = tmp_path / "tool"
    command.write_text(
        f"#!{interpreter()} -S\n"
        + dedent(f"""
        import os
        input()
        for _ in range(40): os.write(2, bytes({MB}))
        print("answered")
    """)
    )
    command.chmod(0o755)
    with closing(begin("judge", Resource(command=str(command), sandbox="bubblewrap"))) as judge:
        assert judge.answer(ResourceCall(b"1"), 1) == b"answered"
    assert len(capfd.readouterr().err) == ERROR_BYTES

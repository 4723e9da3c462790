"""The system's errors in words, and the remedies: one for each cause."""

import errno
import signal

ADVICE = {
    errno.ENOSPC: "free disk space and try again",
    errno.EDQUOT: "the disk quota is used up; free disk space and try again",
    errno.EFBIG: "raise the file size limit (ulimit -f) and try again",
    errno.EROFS: "the disk can only be read; work in another folder",
    errno.EACCES: "work in a folder of your own, or ask its owner for the permission",
    errno.EPERM: "check that the file system allows hard links and writing",
    errno.EMFILE: "raise the limit (ulimit -n) and try again",
    errno.ENFILE: "the machine has too many files open; end other programs and try again",
    errno.ENOMEM: "the machine has no memory left; end other programs and try again",
    errno.ENAMETOOLONG: "choose a shorter name for the run or its folder",
    errno.ENOLCK: "its file system has no locks; work in a folder of a local disk, or mount it with locks",
    errno.ENOTDIR: "a file stands where a folder is needed; move it away",
}


def explain(error: OSError, otherwise: str = "check the disk and the folder") -> str:
    """Return the reason of the system's error, with the advice for that cause, or else with `otherwise`."""
    advice = ADVICE.get(error.errno or 0, otherwise)
    return f"{error.strerror or error}; {advice}" if advice else f"{error.strerror or error}"


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL. Real-time signals have only numbers."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

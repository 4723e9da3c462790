"""Check the subjects of new commits: imperative, at most 72 characters and 10 words.

    python -m scripts.commit_subjects [BASE]

Without BASE it checks the commits after `FIRST`. If a (shallow) clone lacks that commit, it prints that they are not
checked.
"""

import re
import subprocess
import sys

FIRST = "9425557060f95b8f54302021fb17b34a8a278ae7"
"""The last commit before the rule."""
MOST_CHARACTERS, MOST_WORDS = 72, 10
# Verbs that look like other forms: `Pass`, `Embed`, `Bring`.
_IMPERATIVE = re.compile(r"(?:\w*(?:ss|eed|bed|shed|pread)|Bring|String|Ring|Focus|Alias|Bias|Canvas)\b")
_OTHER_FORM = re.compile(r"\w+(?:ed|ing|s)\b")
_QUESTION = re.compile(r"(?:What|Whether|How|Where|Who|Which|Why|When|The|An?)\b")


def fault_of(subject: str) -> str | None:
    """Return the fault of a commit's subject, or None."""
    if len(subject) > MOST_CHARACTERS:
        return f"{len(subject)} characters, and at most {MOST_CHARACTERS} are allowed"
    if len(subject.split()) > MOST_WORDS:
        return f"{len(subject.split())} words, and at most {MOST_WORDS} are allowed"
    if not subject[:1].isupper() or _QUESTION.match(subject):
        return "begin with a verb in the imperative, with a capital letter"
    if _OTHER_FORM.match(subject) and not _IMPERATIVE.match(subject):
        return f"write the verb in the imperative, not {subject.split()[0]!r}"
    return "leave out the full stop at the end" if subject.endswith(".") else None


def main() -> int:
    """Print each subject with a fault. Returns 1 if there is one."""
    base = sys.argv[1] if len(sys.argv) > 1 else FIRST
    log = ["git", "log", "--no-merges", "--format=%h %s", f"{base}..HEAD"]
    listing = subprocess.run(log, capture_output=True, encoding="utf-8", check=False)
    if listing.returncode:
        print(f"commit subjects: NOT CHECKED, this clone does not hold the commit {base[:8]}")
        return 0
    faults = [
        f"{commit} {subject}: {fault}"
        for commit, _, subject in (line.partition(" ") for line in listing.stdout.splitlines())
        if (fault := fault_of(subject))
    ]
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())

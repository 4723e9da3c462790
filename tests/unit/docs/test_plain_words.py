"""The count of sentences that are hard to read, and the rules for commit subjects."""

import pytest

from scripts.commit_subjects import fault_of
from scripts.plain_words.__main__ import part_of
from scripts.plain_words.kinds import kinds_of
from scripts.plain_words.prose import sentences_of
from scripts.sizes.budgets import excesses, lowered


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("This prints what the run has stored.", "clause as a noun"),
        ("The settings are those of the run.", "pronoun for a noun"),
        ("This is the folder in which the run is stored.", "preposition before which, or whose"),
        ("No worker starts without a free slot.", "two negations"),
        ("The run goes on after a kill.", "old word"),
        ("The run resumes, as with a kill.", "as with"),
        ("The run resumes; its hash is equal.", "semicolon"),
        ("It took .34 of the time.", "number without a leading zero"),
        ("word " * 26, "over 25 words"),
    ],
)
def test_each_kind_has_sentence_of_no_other_kind(sentence, kind):
    assert [of.name for of in kinds_of(sentence)] == [kind]


def test_plain_sentences_are_of_no_kind():
    for sentence in ("You can resume any run.", "What is a run?", "word " * 25, "It took 0.34 s."):
        assert kinds_of(sentence) == ()


def test_question_word_counts_only_at_docstring_start():
    assert kinds_of("Whether the run has ended.") == ()
    assert [kind.name for kind in kinds_of("Whether the run has ended.", first_of_docstring=True)] == [
        "docstring begins with a question word"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "page.md",
            "# A title of words\n\n```\ncode; is no sentence\n```\nThe run\nhas ended now. And `a b` here too.\n",
        ),
        ("page.md", "| a | b |\n|---|---|\n| The run has ended now. | And `a; b` here too. |\n"),
        (
            "code.py",
            '"""The run has ended now.\n\nAnd `a b c` too, yes."""\n\nTEXT = "this is no sentence for readers"\n',
        ),
        ("code.py", "# The run has\n# ended now.\nx = 1\n\n# And a b too.\n"),
        ("code.py", 'add(help="The run has ended now.")\nraise UserError(f"And {x} too, yes.")\n'),
        ("code.h", "/* The run has\n * ended now. */\nint x; // And a b too.\n"),
        ("Makefile", "# The run has ended now.\nx:\n\ty\n# And a b too.\n"),
    ],
)
def test_each_kind_of_file_yields_its_two_sentences(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    first, second = sentences_of(path)
    assert first.text == "The run has ended now."
    assert second.text.startswith("And ")


def test_budgets_only_fall():
    budgets = {"docs/how-to": 10, "gone": 3}
    assert excesses({"docs/how-to": 11, "new": 1}, budgets) == [
        "docs/how-to: 11, and its budget is 10",
        "new: 1, and its budget is 0",
    ]
    assert excesses({"docs/how-to": 10}, budgets) == []
    assert lowered({"docs/how-to": 11, "new": 1}, budgets) == {"docs/how-to": 10, "new": 1}
    assert lowered({"docs/how-to": 9}, budgets) == {"docs/how-to": 9}


def test_parts_are_docs_folders_top_folders_root_files():
    assert [part_of(path) for path in ("README.md", "docs/how-to/log.md", "docs/index.md", "marless/cli/app.py")] == [
        "README.md",
        "docs/how-to",
        "docs",
        "marless",
    ]


@pytest.mark.parametrize("subject", ["Bill reads of inlined objects", "Pass the seed to workers", "Need one lock less"])
def test_imperative_subjects_pass(subject):
    assert fault_of(subject) is None


@pytest.mark.parametrize(
    "subject",
    [
        "Added a table",
        "Adding a table",
        "Adds a table",
        "add a table",
        "The table",
        "What is in flight",
        "Add a table.",
        "Add " + "a " * 10,
        "Add " + "table" * 14,
    ],
)
def test_other_subjects_have_a_fault(subject):
    assert fault_of(subject)

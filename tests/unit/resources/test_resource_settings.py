"""The table of a resource: its valid keys, and the line about invalid keys."""

import pytest

from marless.coordinator.config.loading import convert, load, load_with_origins
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.config.toml_dump import document
from marless.coordinator.config.toml_parsing import parse_toml
from marless.functions.resources.settings import Resource, identity
from marless.page.run_settings import command, settings

JUDGE = "resources.judge.serve=my_judge:grade"


def refusal(*overrides):
    with pytest.raises(ConfigError) as error:
        load(None, overrides)
    return str(error.value).removeprefix("the command line: ")


def test_a_resource_is_read_as_it_is_typed():
    typed = ["resources.judge.cores=1,4", "resources.judge.rate=90/min", "resources.judge.timeout_s=3"]
    (resource,) = load(None, [JUDGE, *typed]).resources.values()
    assert resource == Resource(serve="my_judge:grade", cores=(1, 4), rate="90/min", timeout_s=3.0)
    assert resource.per_s == 1.5


def test_own_judge_is_found_by_earlier_name():
    (resource,) = load(None, ["resources.judge.serve=functions.resources.code_judge:grade"]).resources.values()
    assert resource.serve == "marless.functions.resources.code_judge:grade"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ([JUDGE, "resources.judge.slots=0"], "resources.judge.slots: 0 is not a whole number of at least 1, such as"),
        (["resources.judge.slots=2"], "resources.judge: a resource has exactly one of serve, command and http; none"),
        (
            [JUDGE, "resources.judge.command=cat"],
            "resources.judge: a resource has exactly one of serve, command and http; serve and command are set",
        ),
        ([JUDGE, "resources.judge.slot=2"], "there is no key resources.judge.slot; did you mean resources.judge.slots"),
        ([JUDGE, "resources.judge.x.y=2"], "there is no key resources.judge.x.y; did you mean resources.judge."),
        (["resources.judge=cat"], "resources.judge is a table, not a value; type resources.judge.serve=cat"),
        ([JUDGE, "resources.judge.cores=4,1"], "resources.judge: cores = [4, 1]: the least is above the most"),
        ([JUDGE, "resources.judge.cores=2"], "resources.judge.cores: a list of 2 values is needed, and it has 1 (the"),
        ([JUDGE, "resources.judge.rate=fast"], "resources.judge: rate = 'fast' is no rate, such as 600/min or 10/s"),
        ([JUDGE, "resources.judge.rate=0/s"], "resources.judge: rate = '0/s' is no rate, such as 600/min or 10/s"),
        ([JUDGE, "resources.judge.until=end"], "resources.judge: until says how a command is spoken to; leave it out"),
        ([JUDGE, "resources.judge.ready=ok"], "resources.judge: ready says how a command is spoken to; leave it out"),
        ([JUDGE, "resources.judge.tagged=true"], "resources.judge: tagged says how a command is spoken to; leave it"),
        (
            ["resources.judge.command=cat", "resources.judge.tagged=true", "resources.judge.until=end"],
            "resources.judge: tagged: the answer is a line with the word of its question; leave out until",
        ),
        (
            ["resources.judge.command=cat", "resources.judge.ping=isready"],
            "resources.judge: ping: set ready to the beginning of the line that answers it",
        ),
        (
            ["resources.judge.command=cat", "resources.judge.until=a\nb"],
            "resources.judge: until = 'a\\nb' has a line break; name the beginning of one line",
        ),
        (["resources.judge.serve=grade"], "resources.judge: serve = 'grade' names no function: write package.module:"),
        (
            ["resources.judge.http=https://jüdge.example/"],
            "resources.judge: http: 'jüdge.example' has letters that the",
        ),
        (
            ["resources.judge.http=https://a..b/"],
            "resources.judge: http: '' is no part of a host's name: 1 to 63 letters",
        ),
        (
            [f"resources.judge.http=https://{'a' * 64}.b/"],
            f"resources.judge: http: '{'a' * 64}' is no part of a host's",
        ),
        (["resources.judge.http=https://judge.example/a b"], "resources.judge: http: ' ' cannot stand in an address;"),
        (["resources.judge.http=https://judge.example/\u200b"], "resources.judge: http: '\\u200b' cannot stand in an"),
        (["resources.judge.http=https://judge.example:70000/"], "resources.judge: http: Port out of range 0-65535"),
        (["resources.judge.http=https://1.2.3.400/"], "resources.judge: http: '1.2.3.400' is no number of a host"),
        (["resources.judge.http=https://[::g]/"], "resources.judge: http: '::g' "),
        (["resources.judge.http=https://a/#b"], "resources.judge: http: a service is not sent what follows '#'; leave"),
        (["resources.judge.http=judge.example"], "resources.judge: http: write it as https://host/path"),
        (
            ["resources.judge.http=https://me:secret@judge.example/"],
            "resources.judge: http: leave out name and password; a token goes into the variable MARLESS_RESOURCE_",
        ),
        (
            ["resources.judge.http=https://judge.example/", "resources.judge.sandbox=bubblewrap"],
            "resources.judge: sandbox: a service runs elsewhere; leave it out",
        ),
        (
            ["resources.judge.http=https://judge.example/", "resources.judge.cores=1,4"],
            "resources.judge: cores: a service computes elsewhere; leave it out",
        ),
        (
            ["resources.judge.command=cat", "resources.judge.cores=1,4"],
            "resources.judge: cores = [1, 4]: a program is not told how many it has; write one number twice",
        ),
        (
            ["resources.The-Judge.serve=my_judge:grade"],
            "resources: 'The-Judge' is no name of a resource: small letters",
        ),
        (["task.judge=judge"], "task.judge: there is no resource 'judge'; set resources.judge.serve"),
        ([JUDGE, "task.judge=jury"], "task.judge: there is no resource 'jury'; there are judge"),
    ],
)
def test_invalid_resource_is_one_line_with_key(overrides, says):
    assert refusal(*overrides).startswith(says)


@pytest.mark.parametrize(
    "address",
    [
        "http://judge/",
        "https://judge.example.:8443/a%20b?c=d",
        "http://[::1]:80",
        "http://127.0.0.1/",
        "http://my_judge/",
    ],
)
def test_an_address_that_can_be_asked_is_taken(address):
    assert Resource(http=address).http == address


def test_a_file_with_resources_reads_back_as_itself():
    config = load(
        None, [JUDGE, "resources.judge.keep=true", "resources.engine.command=engine --fast", "task.judge=judge"]
    )
    text = document(config)
    assert convert(parse_toml(text), "here") == config
    assert "\n[resources]\n" not in text
    assert "allows it\nslots = 1\n" in text


def test_configuration_without_resources_omits_them():
    assert "resources" not in document(load(None))


def test_stored_settings_differ_from_resource_defaults():
    config = load_with_origins(None, [JUDGE, "resources.judge.slots=4"])[0]
    assert [each.key for each in settings(config) if each.differs] == ["resources.judge.serve", "resources.judge.slots"]
    assert command(config) == "marless train resources.judge.serve=my_judge:grade resources.judge.slots=4"


BASE = Resource(serve="my_judge:grade")


@pytest.mark.parametrize(
    "same", [{"slots": 3}, {"cores": (1, 2)}, {"rate": "1/s"}, {"timeout_s": 1.0}, {"attempts": 1}, {"keep": True}]
)
def test_call_settings_are_not_part_of_identity(same):
    assert identity("judge", Resource(serve="my_judge:grade", **same)) == identity("judge", BASE)


def test_what_answers_is_its_identity():
    others = [
        identity("jury", BASE),
        identity("judge", Resource(serve="my_judge:other")),
        identity("judge", Resource(command="my_judge:grade")),
        identity("judge", Resource(command="my_judge:grade", until="x")),
        identity("judge", Resource(command="my_judge:grade", ready="x")),
        identity("judge", Resource(command="my_judge:grade", ready="x", ping="y")),
        identity("judge", Resource(command="my_judge:grade", tagged=True)),
        identity("judge", Resource(serve="my_judge:grade", sandbox="bubblewrap")),
        identity("judge", BASE),
    ]
    assert len(set(others)) == len(others)

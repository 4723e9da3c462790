"""Functions' packages: their contents, exclusions and refusals. pip installs fake wheels without a network."""

import hashlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest
from commands import Commands
from fake_wheels import project, wheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from shell import Shell

from aws_emulator import account
from marless.cloud.emulated_account import account_folder
from marless.cloud.packing import learner_image, pack_functions
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.environments.scripted import script_names as scripted
from marless.functions.environments.task_names import BUILT_IN, FAMILIES
from marless.functions.function_specs import COORDINATOR, FUNCTIONS
from marless.functions.resources.settings import Resource
from marless.infra.packaging import function_kernels
from marless.infra.packaging import package_build as packages_module
from marless.infra.packaging.archives import pack
from marless.infra.packaging.interpreters import interpreter
from marless.infra.packaging.package_build import (
    ENTRIES,
    LIMIT,
    PINS,
    RESOURCE_ENTRY,
    ROOT,
    SERVICES,
    build,
    require_size,
    torch_users_among,
)
from marless.infra.packaging.package_sources import sources
from marless.infra.packaging.plugins import PackageFault, prepare, stage
from scripts.audit_image import DOCKERFILE
from scripts.dockerfile import Followed
from scripts.sizes import __main__ as sizes
from scripts.sizes import budgets

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PINNED = dict(line.removesuffix(" \\").split("==") for line in PINS.read_text().splitlines() if "==" in line)
SETTINGS = {
    "MARLESS_BUCKET": "bucket",
    "MARLESS_TABLE": "table",
    "MARLESS_TENANT": "default",
    "POWERTOOLS_METRICS_NAMESPACE": "MARLess",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1769",
}
OWNERS = importlib.metadata.packages_distributions()
# Modules that a registry imports when a task names them.
ENVIRONMENTS = {*BUILT_IN.values(), *(family.module for family in FAMILIES.ours())}
# Modules that a task imports if its run has resources.
ASKING = {"marless.functions.resources.asking", "marless.infra.aws.resource_host"}
# Modules with kernels for actors of native runs and for their environments.
ACTING = {"marless.functions.nn.native.acting", "marless.functions.environments.mpe.native_world"}
SCRIPTED = {name.partition(":")[0] for name in scripted.BUILT_IN.values()}
# Modules that it imports if a process waits for functions, governs a study, or has a budget.
GOVERNED = "drive.attempt_record", "drive.study_governor", "governor.tenant_budget"
GOVERNING = {f"marless.coordinator.{name}" for name in GOVERNED}
# Modules that it imports when a run names an algorithm.
LEARNING = {
    "marless.functions.algorithms.validation",
    "marless.functions.isolation.process_guard",
    *(name.partition(":")[0] for name in ALGORITHMS.built_in.values()),
    *(spec.implementation for spec in ALGORITHMS.ours() if not spec.function),
}
# The parser of Python is loaded when code of a user starts a program, names of keys when an old manifest is read.
LATE = {"marless.functions.isolation.imported_sources"}
LATE |= {f"marless.coordinator.config.{name}" for name in ("nested_tables", "renamed_keys")}
# Modules that learners import when a run names the engine.
ENGINES = {
    "marless.functions.algorithms.engines.native_engine",
    "marless.functions.nn.native", "marless.functions.nn.native.calls", "marless.functions.nn.native.losses",
    "marless.functions.nn.native.random_matrices", "marless.functions.nn.native.weights",
    "marless.functions.algorithms.engines.torch_engine", "marless.functions.algorithms.value.module_mixer",
    "marless.functions.nn.torch_modules", "marless.functions.named_code", "marless.functions.nn.onnx_export",
    "marless.functions.nn.torch_layers", "marless.functions.nn.torch_weights", "marless.functions.kernel_variables",
}  # fmt: skip
# Deployed functions do without threadpoolctl: environment variables give them one thread.
MAY_IMPORT = {spec.name: spec.may_import for spec in FUNCTIONS if spec.deployed} | {
    COORDINATOR: {"onnx", "threadpoolctl", "torch"}
}


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """pip finds a fake wheel for every pin, and nothing else. The pins with the hashes of those wheels."""
    folder = tmp_path_factory.mktemp("index")
    files = {
        "botocore": {"botocore/data/s3/1/service-2.json.gz": "{}", "botocore/data/ec2/1/service-2.json.gz": "{}"},
        "numpy": {"numpy/__init__.py": "SET = {'a', 'b', 'c'}", "numpy/__init__.pyi": "", "numpy/tests/test.py": ""},
    }
    pins = folder / "pins.txt"
    with pins.open("w") as lines:
        for name, version in PINNED.items():
            made = wheel(folder, name, version, files.get(name, {f"{name.replace('-', '_')}.py": ""}))
            lines.write(f"{name}=={version} --hash=sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}\n")
    # Write the file after -o, like the compiler.
    compiler = "import sys\nopen(sys.argv[sys.argv.index('-o') + 1], 'w').write(' '.join(sys.argv[1:5]))\n"
    zig = wheel(folder, "ziglang", "0.0", {"ziglang/__main__.py": compiler})
    compiler_pins = folder / "compiler.txt"
    compiler_pins.write_text(f"ziglang==0.0 --hash=sha256:{hashlib.sha256(zig.read_bytes()).hexdigest()}\n")
    needs = ["needed>=1", "numpy", f"marless=={importlib.metadata.version('marless')}"]
    wheel(folder, "with-needs", "2.0", {"with_needs.py": "import needed"}, needs)
    wheel(folder, "needed", "1.5", {"needed.py": ""})
    wheel(folder, "torch", "2.9", {"torch/__init__.py": ""}, ["sympy"])
    wheel(folder, "sympy", "1.0", {"sympy.py": ""})
    wheel(folder, "deep", "3.1", {"deep.py": ""}, ["torch>=2.2", "needed"])
    wheel(folder, "torchlight", "1.0", {"torchlight.py": ""}, ['torch; extra == "gpu"'])
    with pytest.MonkeyPatch.context() as patch, Shell() as shell:
        shell.export(PIP_CONFIG_FILE="/dev/null", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder))
        patch.setattr(packages_module, "PINS", pins)
        patch.setattr(function_kernels, "PINS", compiler_pins)
        yield pins


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "meadow").mkdir()
    (folder / "meadow" / "__init__.py").write_text("GRASS = 1")
    (folder / "lonely.py").write_text("WHO = 'nobody'")
    return [str(project(folder / "nests")), str(folder / "meadow"), str(folder / "lonely.py"), "with-needs"]


@pytest.fixture(scope="module")
def packages(offline, plugins, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    targets = {function: folder / function for function in ("actor", "coordinator")}
    assert build(targets, plugins, python=HERE)
    return targets


@pytest.fixture(scope="module")
def actor(packages):
    return packages["actor"]


@pytest.fixture(scope="module")
def uncompiled(offline, tmp_path_factory):
    """The actor's package with a plug-in that needs torch, for a Python that is not here."""
    folder = tmp_path_factory.mktemp("uncompiled")
    assert not build({"actor": folder}, ["deep", "with-needs"], python="3.999")
    return folder


def loaded(function):
    """Our modules, and others' top-level modules, in a fresh interpreter after it imports the deferred modules."""
    program = f"""
import importlib, json, sys
importlib.import_module({ENTRIES[function]!r})
for name in {sorted(later(function))!r}:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=SETTINGS, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def later(function):
    others = {"learner": LEARNING, "coordinator": LEARNING | SCRIPTED | GOVERNING}.get(function, set())
    return others if function == COORDINATOR else others | ENVIRONMENTS | ASKING | ACTING


def ours(modules):
    return {name for name in modules if name.startswith(("marless.functions", "marless.coordinator", "marless.infra"))}


def names(files):
    return {".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files}


@pytest.mark.parametrize("budget", [sizes.CORE, sizes.HANDLER], ids=["core", "on Lambda"])
def test_the_coordinator_starts_with_few_modules(budget):
    assert len(sizes.loaded_modules(budget)) <= budgets.of_table(sizes.TABLE)[budget]


@pytest.mark.parametrize("function", ENTRIES)
def test_function_sources_are_the_modules_it_loads(function):
    modules = loaded(function)
    packed = names(sources(ROOT, ENTRIES[function]).files)
    learns = "marless.functions.algorithms.engine" in packed
    assert packed - LATE == ours(modules) | (ENGINES if learns else set())
    assert not modules & {"torch", "pydantic", "boto3"}


@pytest.mark.parametrize("function", ENTRIES)
def test_foreign_modules_are_pinned_or_from_plug_ins(function):
    foreign = sources(ROOT, ENTRIES[function]).foreign - MAY_IMPORT[function]
    pinned = {name.replace("-", "_") for name in PINNED}
    assert {name for name in foreign if not {one.replace("-", "_") for one in OWNERS[name]} & pinned} == set()


def test_the_pins_are_those_of_the_development_environment():
    lines = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    developed = {canonicalize_name(name): version for name, version in lines}
    assert {name: developed[name] for name in PINNED} == PINNED


@pytest.mark.parametrize(
    ("file", "least"),
    [(PINS, 10), (function_kernels.PINS, 1), *((file, 10) for file in sorted(ROOT.glob("constraints-audit-*.txt")))],
    ids=lambda value: getattr(value, "stem", ""),
)
def test_every_pin_has_a_hash(file, least):
    pins = re.split(r"(?<!\\)\n", re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).strip())
    assert len(pins) >= least
    assert [pin for pin in pins if not re.fullmatch(r"\S+==\S+( *\\?\n? *--hash=sha256:[0-9a-f]{64})+", pin)] == []


def test_a_wheel_of_another_hash_is_refused(offline, tmp_path, monkeypatch):
    other = tmp_path / "pins.txt"
    last = offline.read_text()[-2]
    other.write_text(offline.read_text()[:-2] + ("0" if last != "0" else "1") + "\n")
    monkeypatch.setattr(packages_module, "PINS", other)
    with pytest.raises(PackageFault, match="DO NOT MATCH THE HASHES"):
        build({"actor": tmp_path / "actor"}, python=HERE)
    assert not list((tmp_path / "actor").glob("numpy*"))


def test_pins_hold_exactly_their_dependencies():
    roots = {"aws-xray-sdk", "aws-lambda-powertools", "botocore", "msgspec", "numpy", "safetensors"}
    found, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            required = map(Requirement, importlib.metadata.requires(name) or [])
            waiting += [
                canonicalize_name(one.name)
                for one in required
                if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    assert found == set(PINNED)


def test_package_holds_models_of_all_called_services():
    called = set()
    for entry in (*ENTRIES.values(), *RESOURCE_ENTRY.values()):
        for file in sources(ROOT, entry).files:
            called |= set(re.findall(r"\.client\(\"(\w+)\"", (ROOT / file).read_text()))
    assert called == set(SERVICES)


def test_sources_follow_top_inner_and_named_imports(tmp_path):
    files = {
        "marless/functions/__init__.py": "",
        "marless/functions/entry.py": "import json\nfrom marless.functions import near\nimport numpy.linalg\n",
        "marless/functions/near.py": "def f():\n    from marless.functions.late import g\n",
        "marless/functions/late.py": "NAMED = {'x': 'marless.functions.named.module'}\n",
        "marless/functions/named/__init__.py": "import yaml\n",
        "marless/functions/named/module.py": "'see marless.functions.unused for more'\n",
        "marless/functions/unused.py": "import torch\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = sources(tmp_path, "marless.functions.entry")
    assert {str(file) for file in found.files} == set(files) - {"marless/functions/unused.py"}
    assert found.foreign == {"numpy", "yaml"}


def test_an_entry_that_is_not_there_is_named():
    with pytest.raises(ModuleNotFoundError, match=r"there is no module marless\.infra"):
        sources(ROOT, "marless.infra.entry.nobody")


@pytest.mark.slow
def test_package_holds_code_pins_and_plug_ins_only(actor):
    present = {path.relative_to(actor).as_posix() for path in actor.rglob("*") if "__pycache__" not in path.parts}
    numpy = f"numpy-{PINNED['numpy']}.dist-info"
    assert {str(file) for file in sources(ROOT, ENTRIES["actor"]).files} <= present
    assert {"nests.py", "meadow/__init__.py", "lonely.py", "with_needs.py", "needed.py"} <= present
    assert {"botocore/data/s3/1/service-2.json.gz", f"{numpy}/METADATA", f"{numpy}/licenses/LICENSE"} <= present
    ballast = {"aws_emulator", "botocore/data/ec2", "numpy/tests", "numpy/__init__.pyi", f"{numpy}/RECORD"}
    assert not present & {*ballast, "marless/coordinator", "marless/functions/learner"}


@pytest.mark.slow
def test_learning_function_holds_kernels_for_its_processor(offline, tmp_path):
    build({"learner": tmp_path}, machine="x86_64", python=HERE)
    held = {file.name: file.read_text() for file in (tmp_path / "marless/functions/native").glob("*.so")}
    assert held.keys() == {"kernels-x86-64-v3.so", "kernels-x86-64-v4.so"}
    assert {text.partition(" -O3")[0] for text in held.values()} == {"cc -target x86_64-linux-gnu.2.17"}


@pytest.mark.slow
def test_plug_in_that_requires_torch_makes_learner_image(offline):
    users = torch_users_among(["torchlight", "deep>=3"])
    assert users.reason == "deep needs torch"
    assert users.versions == ("torchlight==1.0", "deep==3.1")
    assert torch_users_among(["torch>=2"]).reason == "torch is a plug-in"
    assert torch_users_among(["torchlight", "with-needs"]).names == ()
    assert torch_users_among([]).names == ()


@pytest.mark.slow
def test_no_archive_holds_torch_but_other_requirements_remain(uncompiled):
    assert {path.stem for path in uncompiled.glob("*.py")} >= {"deep", "needed", "with_needs"}
    assert not list(uncompiled.glob("torch*")) + list(uncompiled.glob("sympy*"))


def test_a_learner_that_needs_torch_has_no_archive(offline, tmp_path):
    with pytest.raises(PackageFault, match=r"^deep needs torch, so the learner has to be a container image"):
        build({"learner": tmp_path / "learner"}, ["deep"], python=HERE)


@pytest.mark.slow
def test_image_tag_changes_with_all_its_contents(offline, plugins, tmp_path):
    deep = torch_users_among(["deep"])

    def tag(name, *chosen, users=deep):
        image = learner_image(tmp_path / name, chosen, users)
        assert set(image.tag) <= set("0123456789abcdef")
        return image.tag

    alone = tag("alone", "deep")
    # Each deployment builds a project's wheel again.
    assert tag("first", "deep", plugins[0]) == tag("second", "deep", plugins[0]) != alone
    assert tag("more", "deep", "needed") != alone
    assert tag("newer", "deep", users=replace(deep, versions=("deep==3.2",))) != alone


def image_files(context, folder):
    image = Followed(context, folder, {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})
    image.follow(DOCKERFILE.read_text(), {"TORCH_INDEX": ""})
    task = image.below("/var/task")
    return {path.relative_to(task).as_posix(): path.read_bytes() for path in task.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_image_of_torch_plug_in_holds_both(offline, tmp_path):
    with pack_functions(["deep"], torch_users_among(["deep"]), {}, lambda line: None) as packages:
        assert packages.archives.keys() == {"actor", "evaluator", "coordinator"}
        shutil.copyfile(offline, packages.image.context / PINS.relative_to(ROOT / "marless"))
        files = image_files(packages.image.context, tmp_path / "image")
    there = {name.partition("/")[0] for name in files}
    assert there >= {"torch", "sympy.py", "deep.py", "needed.py", "numpy", "marless"}
    # These name the folder that the wheels lay in.
    assert not {name.rpartition("/")[2] for name in files} & {"RECORD", "direct_url.json"}


@pytest.mark.slow
def test_resource_package_has_every_kind_and_named_modules(offline, tmp_path):
    plugin, resources = tmp_path / "my_judge.py", {"judge": Resource(serve="my_judge:grade")}
    plugin.write_text("def grade(question): return question")
    nobody = torch_users_among([])
    with pack_functions([str(plugin)], nobody, resources, lambda line: None) as packages:
        assert packages.archives.keys() == {*ENTRIES, "resource"}
        with ZipFile(packages.archives["resource"]) as archive:
            files = set(archive.namelist())
    kinds = {f"marless/functions/resources/serving/kinds/{kind}.py" for kind in ("function", "command", "http")}
    assert files >= {"my_judge.py", "marless/infra/entry/resource.py", "marless/infra/aws/claimed_storage.py", *kinds}
    brought = {name.replace("-", "_") for name in PINNED} | {"threadpoolctl"}  # the handler limits threads with it
    assert not sources(ROOT, RESOURCE_ENTRY["resource"]).foreign - brought
    advice = r"resource judge: no plug-in has the module my_judge; add it, as --plugin ./my_judge.py"
    with pytest.raises(PackageFault, match=advice), pack_functions([], nobody, resources, lambda line: None):
        pass


@pytest.mark.conformance
def test_every_image_build_has_same_files(offline, tmp_path):
    image = learner_image(tmp_path / "context", ["deep"], torch_users_among(["deep"]))
    shutil.copyfile(offline, image.context / PINS.relative_to(ROOT / "marless"))
    first, second = (image_files(image.context, tmp_path / name) for name in ("first", "second"))
    assert second == first


@pytest.mark.slow
def test_a_deployment_needs_no_container_engine(offline, tmp_path, shell, capfd):
    (tmp_path / "bin").mkdir()
    shell.export(PATH=str(tmp_path / "bin"))
    shell.cd(tmp_path)
    marless = Commands(capfd)
    assert marless("cloud", "deploy", "--backend", "emulated", "--yes").code == 0
    try:
        where = account.find(account_folder()).whereabouts
        shell.export(AWS_ENDPOINT_URL=where.endpoint)
        shell.export(AWS_ACCESS_KEY_ID=where.key, AWS_SECRET_ACCESS_KEY=where.secret)
        made = marless("cloud", "deploy", "--region", where.region, "--plugin", "with-needs", "--yes")
        assert (made.code, made.err) == (0, [])
        assert "learner     a zip archive, as no plug-in needs torch" in made.out
        # Of fake wheels and our own modules: about half a megabyte at most.
        uploaded = dict(line.removeprefix("uploading ").split(", ") for line in made.out if "uploading" in line)
        assert [*uploaded] == [*ENTRIES] and {*uploaded.values()} <= {"0 MB", "1 MB"}
    finally:
        account.find(account_folder()).stop()


@pytest.mark.parametrize("function", ENTRIES)
def test_no_package_holds_the_emulated_account(function):
    # Only files of the packages' own roots are copied, and none of these imports the emulated account.
    found = sources(ROOT, ENTRIES[function])
    assert {file.parts[:2] for file in found.files} <= {
        ("marless", name) for name in ("functions", "infra", "coordinator")
    }
    assert not found.foreign & {"aws_emulator", "moto", "samtranslator", "boto3"}


def test_packaged_plug_ins_are_found_by_entry_point(actor):
    program = """
import sys
sys.path.insert(0, sys.argv[1])
from importlib.metadata import entry_points
import lonely, meadow, with_needs
(found,) = entry_points(group="marless.environments")
print(found.name, found.load()(None, 1))
"""
    done = subprocess.run([sys.executable, "-ISBc", program, str(actor)], capture_output=True, text=True, check=True)
    assert done.stdout == "nests/egg an egg\n"


def test_bytecode_is_unchecked_and_names_its_lambda_path(actor):
    (compiled,) = (actor / "marless/functions/actor/__pycache__").glob("handler.*.pyc")
    data = compiled.read_bytes()
    # PEP 552: bit 0 of the flags says hash-based, bit 1 that the hash is to be checked.
    assert int.from_bytes(data[4:8], "little") == 1
    assert b"/var/task/marless/functions/actor/handler.py" in data
    assert str(actor).encode() not in data


@pytest.mark.slow
def test_the_same_inputs_give_the_same_archive(packages, plugins, tmp_path):
    assert (packages["coordinator"] / "marless/coordinator/pricing/prices/aws-us-east-1.toml").is_file()
    once, again = packages["actor"], tmp_path / "again"
    build({"actor": again}, plugins, python=HERE)
    assert pack(once, tmp_path / "once.zip") == pack(again, tmp_path / "again.zip")


def test_an_archive_depends_on_names_and_bytes_alone(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, order in ((first, ("a/x", "b")), (second, ("b", "a/x"))):
        for name in order:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
    (second / "b").chmod(0o600)
    digest = pack(first, tmp_path / "1.zip")
    assert digest == pack(second, tmp_path / "2.zip")
    (second / "b").write_text("c")
    assert digest != pack(second, tmp_path / "3.zip")


def test_package_has_no_bytecode_without_right_interpreter(uncompiled):
    assert interpreter("3.999") is None
    assert not list(uncompiled.rglob("*.pyc"))


def test_this_interpreter_is_found_by_its_version():
    assert interpreter(HERE) == sys.executable


def test_too_large_package_is_refused_with_largest_folders(tmp_path):
    for name, size in {"scipy": 200_000_000, "numpy": LIMIT - 200_000_000 - 5, "small": 5}.items():
        (tmp_path / name).mkdir()
        with (tmp_path / name / "file").open("wb") as file:
            file.truncate(size)
    require_size("actor", tmp_path)
    (tmp_path / "one").write_bytes(b"1")
    with pytest.raises(
        PackageFault, match=r"^the package of actor is 262 MB.*: scipy 200 MB, numpy 62 MB, small 0 MB$"
    ):
        require_size("actor", tmp_path)


def test_a_folder_that_holds_something_is_not_overwritten(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(PackageFault, match="not empty"):
        build({"actor": tmp_path})


def test_plug_in_may_not_take_our_package_name(offline, tmp_path):
    (tmp_path / "marless.py").write_text("")
    with pytest.raises(PackageFault, match="a module named marless"):
        build({"actor": tmp_path / "actor"}, [str(tmp_path / "marless.py")], python=HERE)


def test_plug_in_unknown_to_pip_is_one_line(offline, tmp_path):
    with pytest.raises(PackageFault, match=r"^pip install failed: ERROR: .*no-such-thing.*$"):
        build({"actor": tmp_path / "actor"}, ["no-such-thing"], python=HERE)


@pytest.mark.parametrize("plugin", ["./nothing/here", "--index-url=x"])
def test_name_that_is_no_plug_in_is_refused(tmp_path, plugin):
    with pytest.raises(PackageFault, match=re.escape(plugin)):
        prepare([plugin], tmp_path)


def test_image_plug_ins_are_wheels_requirements_and_modules(offline, tmp_path):
    (tmp_path / "lonely.py").write_text("")
    ready = wheel(tmp_path, "ready", "1.0", {"ready.py": ""})
    stage([str(project(tmp_path / "nests")), str(ready), "other>=2", str(tmp_path / "lonely.py")], tmp_path / "out")
    lines = (tmp_path / "out/requirements.txt").read_text().splitlines()
    own = f"./marless-{importlib.metadata.version('marless')}-py3-none-any.whl"
    wheels = [own, "./wheels/0/nests-1.0-py3-none-any.whl", "./wheels/1/ready-1.0-py3-none-any.whl"]
    assert lines == [*wheels, "other>=2"]
    assert all((tmp_path / "out" / line).is_file() for line in wheels)
    assert (tmp_path / "out/modules/lonely.py").is_file()

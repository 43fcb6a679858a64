"""``import blaswheel``: what programs that build things get without a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.building import build, works
from tests.cli.sites import ILP64, LP64, NEWEST, NUMPY, Blaswheel, fields, python_path
from tests.support import Wheels

pytestmark = pytest.mark.tool("cc")

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def both(wheels: Wheels) -> list[Path]:
    return [wheels.unpacked(LP64), wheels.unpacked(ILP64)]


@pytest.fixture
def evaluate(blaswheel: Blaswheel, both: list[Path]) -> Run:
    """Evaluate an expression where blaswheel is installed; its value comes back as JSON."""

    def run(expression: str, on: Path | list[Path] = both, **environ: str) -> Any:
        program = f"import json, blaswheel\nprint(json.dumps({expression}))"
        done = blaswheel.venv.run(
            "python", "-W", "error", "-c", program, environ={**python_path(on), **environ}
        )
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


def test_find_all_is_what_list_shows(
    evaluate: Run, blaswheel: Blaswheel, both: list[Path], wheels: Wheels
) -> None:
    on = [*both, wheels.unpacked(NUMPY)]
    found = evaluate("[one.as_json() for one in blaswheel.find_all()]", on=on)
    assert len(found) == 3
    listed = json.loads(blaswheel("list", "--json", on=on).stdout)["libraries"]
    called = ("verified", "evidence", "complex_return", "float_return")
    for one in [*found, *listed]:
        for field in called:
            del one[field]
    assert sorted(found, key=lambda one: str(one["path"])) == sorted(
        listed, key=lambda one: str(one["path"])
    )
    assert evaluate("[one.path for one in blaswheel.find_all()]", on=[]) == []


def test_attributes(evaluate: Run, both: list[Path]) -> None:
    names = "path implementation version interface include_dirs library_dir linkable reason names"
    one = evaluate(f"{{name: getattr(blaswheel.find(), name) for name in {names!r}.split()}}")
    package = both[0] / "scipy_openblas32"
    assert one["path"] == str(package / "lib/libscipy_openblas.so")
    assert one["library_dir"] == str(package / "lib")
    assert one["include_dirs"] == [str(package / "include")]
    assert (one["implementation"], one["interface"]) == ("openblas", "lp64")
    assert NEWEST.startswith(one["version"])
    assert (one["linkable"], one["reason"]) == (True, "")
    assert one["names"]["cblas"][0] == ["scipy_", ""]
    assert one["names"]["lapack"][0] == ["scipy_", "_"]
    provider = evaluate("[blaswheel.find().provider.name, blaswheel.find().provider.version]")
    assert provider == ["scipy-openblas32", NEWEST]


@pytest.mark.parametrize(
    ("call", "interface"),
    [
        ("find()", "lp64"),
        ("find(interface='ilp64')", "ilp64"),
        ("find('scipy-openblas64')", "ilp64"),
        ("find(provider='scipy_openblas64')", "ilp64"),
        ("find('openblas', interface='ilp64')", "ilp64"),
        ("find(blaswheel.find_all()[1].path)", "ilp64"),
    ],
)
def test_find_chooses_as_pc_does(evaluate: Run, call: str, interface: str) -> None:
    assert evaluate(f"blaswheel.{call}.interface") == interface


def test_find_looks_where_it_is_told(evaluate: Run, blaswheel: Blaswheel, both: list[Path]) -> None:
    call = f"blaswheel.find(root={str(both[1])!r}).interface"
    assert evaluate(call) == "ilp64"
    call = f"[one.path for one in blaswheel.find_all(python={str(blaswheel.venv.python)!r})]"
    # The other interpreter has this one's PYTHONPATH.
    assert len(evaluate(call)) == 2
    for name, value in (("PROVIDER", "scipy-openblas64"), ("INTERFACE", "ilp64")):
        environ = {f"BLASWHEEL_{name}": value}
        assert evaluate("blaswheel.find().interface", **environ) == "ilp64"
    environ = {"BLASWHEEL_INTERFACE": "ilp64"}
    assert evaluate("blaswheel.find(interface='lp64').interface", **environ) == "lp64"
    path = str(both[0] / "scipy_openblas32/lib/libscipy_openblas.so")
    environ = {"BLASWHEEL_PROVIDER": "scipy-openblas64"}
    assert "BLASWHEEL_PROVIDER" in caught(evaluate, f"find({path!r})", **environ)[0]


@pytest.mark.parametrize(
    ("call", "options", "suffix"),
    [
        ("find()", "", ""),
        ("find(interface='ilp64')", "", "64_"),
        ("find(interface='ilp64')", "interface='ilp64', symbol_suffix=''", ""),
        ("find()", "symbol_suffix='_x'", "_x"),
    ],
)
def test_arguments_compile_link_and_run(
    evaluate: Run, blaswheel: Blaswheel, tmp_path: Path, call: str, options: str, suffix: str
) -> None:
    compiling = evaluate(f"blaswheel.{call}.compile_args({options})")
    linking = evaluate(f"blaswheel.{call}.link_args(runtime='absolute', {options})")
    assert all(isinstance(word, str) for word in [*compiling, *linking])
    works(blaswheel.venv, build(blaswheel.venv, tmp_path, [*compiling, *linking], suffix))


def test_default_runtime_records_no_path(evaluate: Run, both: list[Path]) -> None:
    words = evaluate("blaswheel.find().link_args()")
    assert words[0].startswith("-L") and words[1].startswith("-lblaswheel_")
    assert not any(word.startswith("-Wl,-rpath,") for word in words)
    origin = evaluate("blaswheel.find().link_args(runtime='origin')")
    assert "-Wl,-rpath,$ORIGIN/scipy_openblas32/lib" in origin
    one = evaluate("blaswheel.find().link_args(runtime='origin', depth=1)")
    assert [word for word in one if word.startswith("-Wl,-rpath,")] == [
        "-Wl,-rpath,$ORIGIN/../scipy_openblas32/lib"
    ]


@pytest.mark.parametrize(
    "options", ["", "native=True", "runtime='absolute'", "symbol_prefix='my_'"]
)
def test_pkg_config_is_what_pc_prints(
    evaluate: Run, blaswheel: Blaswheel, both: list[Path], options: str
) -> None:
    words = {
        "": [],
        "native=True": ["--native"],
        "runtime='absolute'": ["--runtime", "absolute"],
        "symbol_prefix='my_'": ["--symbol-prefix", "my_"],
    }[options]
    text = evaluate(f"blaswheel.find().pkg_config({options})")
    printed = blaswheel("pc", "--no-verify", *words, on=both).stdout
    called = ("complex_return", "lapack_version")
    ours, theirs = fields(text), fields(printed)
    for name in called:
        del ours[name], theirs[name]
    assert ours == theirs


def test_verify_calls_the_library(evaluate: Run) -> None:
    verdict = evaluate(
        "(lambda verdict: [verdict.ok, verdict.failure, verdict.complex_return])"
        "(blaswheel.find(interface='ilp64').verify())"
    )
    assert verdict == [True, "", "register"]


CATCH = """
try:
    eval(call)
    caught = ["no error", "", ""]
except blaswheel.BlaswheelError as error:
    caught = [error.message, error.hint, str(error)]
"""


def caught(evaluate: Run, call: str, **how: Any) -> list[str]:
    """Return message, hint and text of the error that a call ends with."""
    scope = f"{{'call': {'blaswheel.' + call!r}, 'blaswheel': blaswheel}}"
    words: list[str] = evaluate(
        f"(lambda scope: (exec({CATCH!r}, scope), scope['caught'])[1])({scope})", **how
    )
    return words


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("find('mkl')", "mkl"),
        ("find(interface='ilp32')", "ilp32"),
        ("find(root='/nowhere')", "/nowhere"),
        ("find_all(python='/nowhere')", "/nowhere"),
        ("find('./nowhere.so')", "nowhere.so"),
        ("find().link_args(interface='ilp64')", "LP64, not ILP64"),
        ("find().compile_args(interface='lp64', symbol_suffix='64_')", "64_"),
        ("find().link_args(native=True, symbol_prefix='x')", "native"),
        ("find().link_args(runtime='magic')", "magic"),
        ("find().link_args(depth=1)", "origin"),
        ("find().link_args(runtime='origin', depth=99)", "99"),
        ("find().pkg_config(symbol_prefix='a b')", "a b"),
        ("find(interface='ilp64').link_args(symbol_suffix='')", "32-bit"),
    ],
)
def test_errors_are_blaswheel_errors(evaluate: Run, call: str, expected: str) -> None:
    message, hint, text = caught(evaluate, call)
    assert expected in message
    assert hint and "\n" not in message + hint
    assert text == f"{message}\n{hint}"


def test_a_library_that_cannot_be_linked_says_why(evaluate: Run, wheels: Wheels) -> None:
    message, *_ = caught(evaluate, "find_all()[0].link_args()", on=wheels.unpacked(NUMPY))
    assert "vendored" in message


def test_importing_costs_nothing(evaluate: Run, blaswheel: Blaswheel) -> None:
    program = "import sys, blaswheel; print(*[n for n in sys.modules if 'blaswheel' in n])"
    assert blaswheel.venv.run("python", "-c", program).stdout.split() == ["blaswheel"]
    names = evaluate("[name for name in dir(blaswheel) if not name.startswith('_')]")
    assert {"BlaswheelError", "Library", "find", "find_all"} <= set(names)
    assert evaluate("hasattr(blaswheel, 'no_such_name')") is False


def test_hints_are_there_for_type_checkers(blaswheel: Blaswheel) -> None:
    """The package says that it is typed (PEP 561)."""
    program = "import blaswheel, os; print(os.path.dirname(blaswheel.__file__))"
    folder = Path(blaswheel.venv.run("python", "-c", program).stdout.strip())
    assert (folder / "py.typed").is_file()


def test_documented_example_is_one(blaswheel: Blaswheel, both: list[Path]) -> None:
    program = "import blaswheel; help(blaswheel.find); help(blaswheel.Library.link_args)"
    text = blaswheel.venv.run("python", "-c", program, environ=python_path(both)).stdout
    assert "Examples" in text and "Parameters" in text

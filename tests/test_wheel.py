"""The wheel and the source archive hold the built extension; without Node, JupyterLab finds it and has it enabled."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import rfnb

ROOT = Path(__file__).parents[1]
BUILT = ROOT / "rfnb" / "labextension" / "package.json"
SHARED = f"rfnb-{rfnb.__version__}.data/data/share/jupyter/labextensions/rfnb-lab/"

pytestmark = pytest.mark.wheel


LOOP = """
import torch
import rfnb as rf

h = torch.zeros(3)
for t in rf.steps(range(5), name="sum"):
    h = h + t
print(rf.runs["sum"][2].h.tolist())
"""


@pytest.fixture(scope="session")
def dist(tmp_path_factory, missing) -> Path:
    """A folder with the source archive and the wheel, from the extension as `make test` has built it."""
    if not BUILT.exists():
        missing("the extension is not built (make test builds it where there is Node)")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--sdist", "--wheel", "--no-isolation", "--outdir", folder]
    run(*build, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def wheel(dist) -> Path:
    """The wheel, built from the checkout."""
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="session")
def sources(dist, tmp_path_factory) -> Path:
    """The folder of the unpacked source archive."""
    folder = tmp_path_factory.mktemp("sources")
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.iterdir())


@pytest.fixture(scope="session")
def clean(wheel, tmp_path_factory) -> Path:
    """A fresh venv with the wheel; its libraries are lent by the running environment, `share/jupyter` is not."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    packages = next(venv.glob("lib/python*/site-packages"))
    (packages / "lent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "--disable-pip-version-check"]
    run(*pip, "install", "--no-deps", "--no-index", "--ignore-installed", wheel)
    return venv


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def in_clean(venv: Path, code: str, *arguments: str) -> str:
    """Python code in the clean venv: no Node on PATH, no Jupyter folders but its own."""
    home = venv.parent / "home"
    env = {"PATH": str(venv / "bin"), "HOME": str(home), "JUPYTER_PLATFORM_DIRS": "0", "LANG": "C.UTF-8"}
    env |= {key: os.environ[key] for key in ("LD_LIBRARY_PATH",) if key in os.environ}
    home.mkdir(exist_ok=True)
    return run(venv / "bin" / "python", "-W", "ignore", "-c", code, *arguments, env=env, cwd=home)


def test_the_wheel_holds_package_extension_and_stepper(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    static = {
        f"rfnb/display/static/{name}" for name in ("stepper.js", "stepper.css", "page.js", "views.js", "views.css")
    }
    assert {"rfnb/__init__.py"} | static <= names
    assert {SHARED + "package.json", SHARED + "install.json", SHARED + "static/style.js"} <= names
    assert any(name.startswith(f"{SHARED}static/remoteEntry.") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_holds_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.startswith("rfnb/labextension/")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"rfnb", "rfnb_lab.py"}
    assert [name for name in names if name.endswith("etc/jupyter/jupyter_server_config.d/rfnb_lab.json")]


def test_the_source_archive_holds_sources_license_and_no_tests(sources):
    names = {str(file.relative_to(sources)) for file in sources.rglob("*") if file.is_file()}
    tops = {name.split("/")[0] for name in names}
    assert {"LICENSE", "THIRD_PARTY.md", "README.md", "CHANGELOG.md", "pyproject.toml", "rfnb", "extension"} <= tops
    assert "extension/yarn.lock" in names and any(name.startswith("extension/src/") for name in names)
    assert not tops & {"tests", "notebooks", "docs", ".ci", "conftest.py", "Makefile"}
    assert not [name for name in names if "node_modules" in name or "__pycache__" in name or "/test/" in name]


def test_the_source_archive_makes_the_same_wheel_without_node(sources, wheel, tmp_path):
    env = os.environ | {"PATH": str(tmp_path)}
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, sources]
    run(*build, cwd=tmp_path, env=env)
    again = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert sorted(again) == sorted(zipfile.ZipFile(wheel).namelist())


def test_the_metadata_say_license_and_description(wheel):
    files = zipfile.ZipFile(wheel)
    said = Parser().parsestr(files.read(f"rfnb-{rfnb.__version__}.dist-info/METADATA").decode())
    assert said["License-Expression"] == "Apache-2.0"
    assert set(said.get_all("License-File", [])) == {"LICENSE", "THIRD_PARTY.md"}
    assert said["Description-Content-Type"] == "text/markdown" and said["Summary"] and said["Keywords"]
    oldest = said["Requires-Python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {oldest}" in said.get_all("Classifier", [])


def test_the_package_imports_from_the_wheel(clean):
    found = in_clean(clean, "import rfnb; print(rfnb.__version__, rfnb.__file__)")
    assert found.startswith(rfnb.__version__) and str(clean) in found


def test_a_loop_is_recorded_from_the_wheel(clean, tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    found = in_clean(clean, "import runpy, sys; runpy.run_path(sys.argv[1])", str(script))
    assert "[3.0, 3.0, 3.0]" in found, found


def test_jupyterlab_finds_the_extension_without_node(clean):
    listed = in_clean(clean, "import sys; from jupyterlab.labextensions import main; sys.exit(main())", "list")
    line = next(line for line in listed.splitlines() if "rfnb-lab" in line)
    assert "enabled" in line and "OK" in line, listed
    assert str(clean) in listed

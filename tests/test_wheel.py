"""The wheel holds the built extension; installed without Node, JupyterLab finds it and has it enabled."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rfnb

ROOT = Path(__file__).parents[1]
BUILT = ROOT / "rfnb" / "labextension" / "package.json"
SHARED = f"rfnb-{rfnb.__version__}.data/data/share/jupyter/labextensions/rfnb-lab/"

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory, missing) -> Path:
    """Built once, from the extension as `make test` has built it."""
    if not BUILT.exists():
        missing("the extension is not built (make test builds it where there is Node)")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.whl"))


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


def test_the_package_imports_from_the_wheel(clean):
    found = in_clean(clean, "import rfnb; print(rfnb.__version__, rfnb.__file__)")
    assert found.startswith(rfnb.__version__) and str(clean) in found


def test_jupyterlab_finds_the_extension_without_node(clean):
    listed = in_clean(clean, "import sys; from jupyterlab.labextensions import main; sys.exit(main())", "list")
    line = next(line for line in listed.splitlines() if "rfnb-lab" in line)
    assert "enabled" in line and "OK" in line, listed
    assert str(clean) in listed

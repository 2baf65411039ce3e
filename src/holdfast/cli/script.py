"""The user's script: it is loaded, not run, and asked for its job."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from holdfast.errors import UsageError
from holdfast.job import Job
from holdfast.launch import loading_a_script

RUN_NAME = "__holdfast__"
"""Not ``__main__``: what a script does when it is run itself must not happen."""


class ScriptFailed(UsageError):
    """The script did not load."""

    code = "SCRIPT_FAILED"


def load_job(script: Path, arguments: Sequence[str], name: str | None) -> Job:
    """The job that a script declares; ``name`` picks one of several."""
    if not script.is_file():
        raise UsageError("there is no such script", path=script)
    _make_findable(script)
    sys.argv = [str(script), *arguments]
    return _choose(_jobs(script), script, name)


def _make_findable(script: Path) -> None:
    """Modules beside the script are found here, and by Spark's Python workers."""
    folder = str(script.resolve().parent)
    sys.path.insert(0, folder)
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *([others] if others else [])])


def _jobs(script: Path) -> list[Job]:
    try:
        with loading_a_script():
            found = runpy.run_path(str(script), run_name=RUN_NAME)
    except UsageError as error:
        if "while it is being loaded" in error.message:
            raise
        raise _failed(error, script) from None
    except SystemExit as error:
        raise ScriptFailed(f"the script ended itself with exit({error.code!r})") from None
    except Exception as error:
        raise _failed(error, script) from None
    jobs = {id(value): value for value in found.values() if isinstance(value, Job)}
    return list(jobs.values())


def _failed(error: Exception, script: Path) -> ScriptFailed:
    trace = _from_script(error.__traceback__, str(script))
    sys.stderr.write("".join(traceback.format_exception(type(error), error, trace)))
    return ScriptFailed("the script failed while it was being loaded; see above", path=script)


def _from_script(trace: TracebackType | None, script: str) -> TracebackType | None:
    """Without the frames that led to the script, which are none of the user's."""
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    return trace


def _choose(jobs: list[Job], script: Path, name: str | None) -> Job:
    names = ", ".join(job.name for job in jobs)
    if not jobs:
        raise UsageError(
            "the script declares no job",
            hint='A job is a variable at the top of the script: job = hf.Job("page-views").',
            path=script,
        )
    chosen = jobs if name is None else [job for job in jobs if job.name == name]
    if not chosen:
        raise UsageError(f"the script declares no job {name!r}", hint=f"There are: {names}.")
    if len(chosen) > 1:
        raise UsageError(
            "the script declares several jobs",
            hint=f"Say which with --job NAME. There are: {names}.",
            path=script,
        )
    return chosen[0]

"""The run in reading order: select, read the source, probe, decide the soft items, run, report.

The only module that knows all the rooms. Git, the clock and the environment come in as arguments.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from action.checklist import Context, Diff, check_recipe
from action.probe import PROBE, Limits, Request, observe
from action.probe import Surroundings as ProbeSurroundings
from action.progress import Progress
from action.records import (
    Environment,
    Observation,
    Reason,
    RecipeReport,
    RecipeSource,
    Report,
    SelectedRecipe,
    Selection,
    StageResult,
    printable,
)
from action.report import conclude, read_report, read_selection, recipe_gaps, run_gaps
from action.repository.checkout import Checkout, checked_out
from action.repository.diff import added_lines, changes
from action.repository.git import Git, GitError, UnknownRevisionError
from action.repository.python import PythonTree
from action.repository.revisions import default_base
from action.repository.tree import CommitTree
from action.select import recipe_names, select, select_all
from action.settings import Settings, SettingsError
from action.source import read_recipe
from action.stages import (
    StagesError,
    StagesInterrupted,
    environment,
    not_run,
    run_stages,
)


@dataclass(frozen=True)
class Surroundings:
    """What a run touches besides its settings: git, the process environment, time, the screen."""

    git: Git
    environ: Mapping[str, str]
    progress: Progress
    clock: Callable[[], float]
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


def select_recipes(settings: Settings, around: Surroundings) -> Selection:
    """Return what the change affects, or what the selection file or `all` says instead.

    Recipes asked for by name are added to it when they are not in it.

    Raises:
        SettingsError: a named recipe does not exist, or the selection file does not fit.
        GitError: the repository or a revision cannot be read.
        ReportFileError: the selection file cannot be read.
    """
    git = around.git
    if settings.selection is not None:
        selection = _from_file(settings, git)
    else:
        selection = _compare(settings, around)
    if not settings.recipes:
        return selection
    known = recipe_names(git, selection.head, recipes_root=settings.recipes_root)
    selected = {recipe.name: recipe for recipe in selection.recipes}
    for name in settings.recipes:
        if name not in known:
            raise SettingsError(
                f"no recipe `{name}` under {settings.recipes_root}/ at {selection.head[:12]}; "
                f"there are: {', '.join(known) or 'none'}"
            )
        asked = SelectedRecipe(
            name=name,
            path=f"{settings.recipes_root}/{name}",
            reasons=(Reason(rule="asked", detail="it was asked for by name"),),
        )
        selected.setdefault(name, asked)
    return selection.model_copy(update={"recipes": tuple(selected.values())})


def validate(
    settings: Settings, around: Surroundings, selection: Selection, text: str | None = None
) -> Report:
    """Return the report on the selected recipes: soft items always, the stages asked for.

    `text` is the pull request's title and text, read for claims. A run that is interrupted, or
    cannot go on, still returns what it has; the report says what stopped it.
    """
    begin, started = around.clock(), around.now()
    recipes: list[RecipeReport] = []
    notes: list[str] = []
    interrupted = None
    asked = settings.recipes or None
    if asked is not None:
        others = [f"`{r.name}`" for r in selection.recipes if r.name not in asked]
        if others:
            notes.append(f"Not part of this run, though selected: {', '.join(others)}.")
    with ExitStack() as stack:
        try:
            _validate_each(settings, around, selection, text, stack, recipes, notes)
        except KeyboardInterrupt:
            interrupted = "it was cancelled"
        except (StagesError, GitError, OSError) as trouble:
            interrupted = str(trouble)
        except Exception as trouble:
            # Whatever it is, what was found before it must reach its reader.
            interrupted = broke_down(trouble)
    gaps = run_gaps(selection, recipes, interrupted, asked)
    report = Report(
        conclusion=conclude(selection, recipes, gaps),
        selection=selection,
        asked=asked,
        recipes=tuple(recipes),
        gaps=gaps,
        notes=tuple(notes),
        started=started.isoformat(timespec="seconds"),
        duration=round(around.clock() - begin, 3),
        run_url=_run_url(around.environ),
        repository_url=_repository_url(around.environ),
    )
    return printable(report)


def merge(paths: Sequence[Path], environ: Mapping[str, str]) -> Report:
    """Merge the reports of jobs that validated some of the recipes of one selection each.

    A selected recipe without a report is a gap. Addresses are this job's own, not the files'.

    Raises:
        ReportFileError: a file cannot be read.
        SettingsError: the reports are of different changes, or two have the same recipe.
    """
    reports = [read_report(path) for path in paths]
    first = reports[0]
    recipes: dict[str, RecipeReport] = {}
    selected: dict[str, SelectedRecipe] = {}
    for path, report in zip(paths, reports, strict=True):
        if _compared(report) != _compared(first):
            raise SettingsError(
                f"{path} is a report on {_shown(report)}, but {paths[0]} on {_shown(first)}; "
                "merge reports of one change"
            )
        selected |= {recipe.name: recipe for recipe in report.selection.recipes}
        for recipe in report.recipes:
            if recipe.name in recipes:
                raise SettingsError(f"{path} has recipe `{recipe.name}`, as another report does")
            recipes[recipe.name] = recipe
    selection = first.selection.model_copy(update={"recipes": tuple(selected.values())})
    results = tuple(recipes.values())
    interruptions = {g.summary: g for r in reports for g in r.gaps if g.id == "run:interrupted"}
    gaps = (*interruptions.values(), *run_gaps(selection, results, None))
    partial_notes = [note for r in reports if r.asked is None for note in r.notes]
    return Report(
        conclusion=conclude(selection, results, gaps),
        selection=selection,
        recipes=results,
        gaps=gaps,
        notes=tuple(dict.fromkeys(partial_notes)),
        started=min(filter(None, (report.started for report in reports)), default=None),
        duration=sum(report.duration for report in reports),
        run_url=_run_url(environ),
        repository_url=_repository_url(environ),
    )


def broke_down(trouble: Exception) -> str:
    """Return one sentence about an error that nobody expected, with the place it came from."""
    where = traceback.extract_tb(trouble.__traceback__)[-1]
    what = f"{type(trouble).__name__}: {trouble}"
    return f"the run broke down at {Path(where.filename).name}:{where.lineno}: {what}"


def pull_request_text(settings: Settings) -> str | None:
    """Return the text of the file that the settings name, None when they name none.

    Raises:
        SettingsError: it cannot be read.
    """
    path = settings.pull_request_text
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as trouble:
        raise SettingsError(
            f"pull_request_text: cannot read {path}: {trouble.strerror}"
        ) from trouble


def _from_file(settings: Settings, git: Git) -> Selection:
    """Return the selection of a file, believed only as far as the repository bears it out."""
    assert settings.selection is not None
    selection = read_selection(settings.selection)
    head = git.commit(selection.head)
    known = recipe_names(git, head, recipes_root=settings.recipes_root)
    for recipe in selection.recipes:
        if recipe.name not in known or recipe.path != f"{settings.recipes_root}/{recipe.name}":
            raise SettingsError(
                f"{settings.selection}: `{recipe.path}` is no recipe at {head[:12]}; "
                f"there are: {', '.join(known) or 'none'}"
            )
    commits = {
        name: value if value is None else git.commit(value)
        for name, value in (("base", selection.base), ("merge_base", selection.merge_base))
    }
    return selection.model_copy(update={"head": head, **commits})


def _compared(report: Report) -> tuple[str, str | None]:
    return report.selection.head, report.selection.merge_base


def _shown(report: Report) -> str:
    head, merge_base = _compared(report)
    return head[:12] if merge_base is None else f"{merge_base[:12]}..{head[:12]}"


def _compare(settings: Settings, around: Surroundings) -> Selection:
    git, root = around.git, settings.recipes_root
    head = git.commit(settings.head)
    if settings.all:
        return select_all(git, head, recipes_root=root)
    if settings.base is not None:
        return select(git, git.commit(settings.base), head, recipes_root=root)
    try:
        base = default_base(git, settings.head, around.environ)
    except UnknownRevisionError:
        if not settings.recipes:
            raise
        return Selection(mode="all", head=head, notes=("There was nothing to compare with.",))
    if base.revision is None:
        return select_all(git, head, recipes_root=root, why=base.why)
    selection = select(git, git.commit(base.revision), head, recipes_root=root)
    return selection.model_copy(update={"notes": (f"Compared with {base.why}.", *selection.notes)})


def _validate_each(
    settings: Settings,
    around: Surroundings,
    selection: Selection,
    text: str | None,
    stack: ExitStack,
    recipes: list[RecipeReport],
    notes: list[str],
) -> None:
    git, progress = around.git, around.progress
    if not selection.recipes:
        return
    head = stack.enter_context(CommitTree(git, selection.head))
    diff = None
    if selection.merge_base is not None:
        base = stack.enter_context(CommitTree(git, selection.merge_base))
        diff = Diff(
            changes(git, selection.merge_base, selection.head),
            PythonTree(base),
            partial(added_lines, git, selection.merge_base, selection.head),
        )
    python = PythonTree(head)
    checkout = None
    seen = Environment()
    if settings.hard_stages or settings.probes:
        checkout = stack.enter_context(checked_out(git, selection.head, settings.out))
        if checkout.note is not None:
            notes.append(checkout.note)
        progress.line(f"looking at {settings.python}")
        seen = environment(
            settings.python, checkout.root, around.environ, pass_env=settings.pass_env
        )
        if seen.problem is not None:
            progress.line(f"  {seen.problem}")
    wanted = [
        selected
        for selected in selection.recipes
        if not settings.recipes or selected.name in settings.recipes
    ]
    sources = [read_recipe(head, python, recipe.name, recipe.path) for recipe in wanted]
    observations = _observe(settings, around, selection, head, sources, checkout, stack)
    for selected, source, observation in zip(wanted, sources, observations, strict=True):
        with progress.group(f"{selected.name}"):
            checks = check_recipe(Context(source, head, python, diff, text, observation))
            for check in checks:
                progress.line(f"  {check.id}: {check.verdict}: {check.summary}")
            stages: tuple[StageResult, ...] = not_run("it was not asked for", "not asked for")
            try:
                if checkout is not None and settings.hard_stages:
                    stages = not_run("the run could not go on")
                    stages = run_stages(
                        selected.path,
                        checkout.root,
                        settings.out / selected.name,
                        python=settings.python,
                        wanted=settings.hard_stages,
                        limits=settings.limits,
                        environ=around.environ,
                        pass_env=settings.pass_env,
                        announce=progress.line,
                        clock=around.clock,
                    )
            except StagesInterrupted as stop:
                stages = stop.results
                raise
            finally:
                recipes.append(
                    RecipeReport(
                        name=selected.name,
                        path=selected.path,
                        reasons=selected.reasons,
                        source=source,
                        observation=observation,
                        checks=checks,
                        stages=stages,
                        gaps=recipe_gaps(checks, stages, seen, observation),
                        environment=seen,
                    )
                )


def _observe(
    settings: Settings,
    around: Surroundings,
    selection: Selection,
    head: CommitTree,
    sources: Sequence[RecipeSource],
    checkout: Checkout | None,
    stack: ExitStack,
) -> list[Observation]:
    """Return what the probe sees of each recipe, all in one run of the worker."""
    if checkout is None or not settings.probes:
        why = "the probe was not asked for"
        return [Observation(outcome="not run", summary=why) for _ in sources]
    requests = _requests(sources, head, checkout.root)
    base = None
    if settings.compare_base and selection.merge_base is not None and sources:
        older = stack.enter_context(checked_out(around.git, selection.merge_base, settings.out))
        base = selection.merge_base, _requests(sources, head, older.root)
    parallel = os.cpu_count() or 1
    with around.progress.group("Observing the models on the CPU"):
        observations = observe(
            requests,
            Limits(settings.probe_limit, int(settings.probe_memory * 2**30), parallel),
            ProbeSurroundings(settings.python, around.environ, around.clock, settings.pass_env),
            base,
        )
        for source, observation in zip(sources, observations, strict=True):
            around.progress.line(f"  {source.name}: {observation.summary}")
    return observations


def _requests(sources: Sequence[RecipeSource], head: CommitTree, root: Path) -> list[Request]:
    return [
        Request(
            name=source.name,
            probe=root / source.path / PROBE,
            root=root,
            wanted=tuple(dict.fromkeys(t.class_name for t in source.targets)),
            preload=("transformers",) if _imports_transformers(head, source.path) else (),
        )
        for source in sources
    ]


def _imports_transformers(head: CommitTree, folder: str) -> bool:
    """Tell whether to import transformers once, for all recipes that are probed."""
    return any(
        b"transformers" in head.read(path)
        for path in head.paths()
        if path.startswith(f"{folder}/") and path.endswith(".py")
    )


def _repository_url(environ: Mapping[str, str]) -> str | None:
    server, repository = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_REPOSITORY")
    return f"{server}/{repository}" if server and repository else None


def _run_url(environ: Mapping[str, str]) -> str | None:
    repository, run = _repository_url(environ), environ.get("GITHUB_RUN_ID")
    return f"{repository}/actions/runs/{run}" if repository and run else None

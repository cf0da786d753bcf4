"""The run in reading order: select, read the source, decide the soft items, run the stages, report.

The only module that knows all the rooms. Git, the clock and the environment come in as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from action.checklist import Context, Diff, check_recipe
from action.progress import Progress
from action.records import (
    Environment,
    Reason,
    RecipeReport,
    Report,
    SelectedRecipe,
    Selection,
    StageResult,
)
from action.report import conclude, read_report, read_selection, recipe_gaps, run_gaps
from action.repository.checkout import checked_out
from action.repository.diff import added_lines, changes
from action.repository.git import Git
from action.repository.python import PythonTree
from action.repository.revisions import default_base
from action.repository.tree import CommitTree
from action.select import recipe_names, select, select_all
from action.settings import Settings, SettingsError
from action.source import read_recipe
from action.stages import environment, not_run, run_stages


@dataclass(frozen=True)
class Surroundings:
    """What a run touches besides its settings: git, the process environment, time, the screen."""

    git: Git
    environ: Mapping[str, str]
    progress: Progress
    clock: Callable[[], float]
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


def select_recipes(settings: Settings, around: Surroundings) -> Selection:
    """Return the recipes to validate.

    Those of the selection file, those named, all, or those that the change affects: whichever the
    settings ask for.

    Raises:
        SettingsError: a named recipe does not exist.
        GitError: the repository or a revision cannot be read.
        ReportFileError: the selection file cannot be read.
    """
    git = around.git
    if settings.selection is not None:
        selection = read_selection(settings.selection)
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
    wanted = tuple(selected[name] for name in dict.fromkeys(settings.recipes))
    return selection.model_copy(update={"recipes": wanted})


def validate(settings: Settings, around: Surroundings, selection: Selection) -> Report:
    """Return the report on the selected recipes: soft items always, the stages asked for.

    A run that is interrupted still returns what it has; the report says what stopped it.
    """
    begin, started = around.clock(), around.now()
    recipes: list[RecipeReport] = []
    notes: list[str] = []
    interrupted = None
    with ExitStack() as stack:
        try:
            _validate_each(settings, around, selection, stack, recipes, notes)
        except KeyboardInterrupt:
            interrupted = "it was cancelled"
    gaps = run_gaps(selection, recipes, interrupted)
    return Report(
        conclusion=conclude(selection, recipes, gaps),
        selection=selection,
        recipes=tuple(recipes),
        gaps=gaps,
        notes=tuple(notes),
        started=started.isoformat(timespec="seconds"),
        duration=round(around.clock() - begin, 3),
        run_url=_run_url(around.environ),
        repository_url=_repository_url(around.environ),
    )


def merge(paths: Sequence[Path]) -> Report:
    """Merge the reports of jobs that validated some of the recipes of one selection each.

    Raises:
        ReportFileError: a file cannot be read.
        SettingsError: the reports are of different commits, or two have the same recipe.
    """
    reports = [read_report(path) for path in paths]
    first = reports[0]
    recipes: dict[str, RecipeReport] = {}
    selected: dict[str, SelectedRecipe] = {}
    for path, report in zip(paths, reports, strict=True):
        if report.selection.head != first.selection.head:
            raise SettingsError(
                f"{path} is a report on {report.selection.head[:12]}, but {paths[0]} on "
                f"{first.selection.head[:12]}; merge reports of one commit"
            )
        selected |= {recipe.name: recipe for recipe in report.selection.recipes}
        for recipe in report.recipes:
            if recipe.name in recipes:
                raise SettingsError(f"{path} has recipe `{recipe.name}`, as another report does")
            recipes[recipe.name] = recipe
    selection = first.selection.model_copy(update={"recipes": tuple(selected.values())})
    interruptions = {g.summary: g for r in reports for g in r.gaps if g.id == "run:interrupted"}
    gaps = (*interruptions.values(), *run_gaps(selection, tuple(recipes.values()), None))
    return first.model_copy(
        update={
            "conclusion": conclude(selection, tuple(recipes.values()), gaps),
            "selection": selection,
            "recipes": tuple(recipes.values()),
            "gaps": gaps,
            "notes": tuple(dict.fromkeys(note for r in reports for note in r.notes)),
            "duration": sum(report.duration for report in reports),
        }
    )


def _compare(settings: Settings, around: Surroundings) -> Selection:
    git, root = around.git, settings.recipes_root
    head = git.commit(settings.head)
    if settings.all:
        return select_all(git, head, recipes_root=root)
    if settings.base is not None:
        return select(git, git.commit(settings.base), head, recipes_root=root)
    base = default_base(git, settings.head, around.environ)
    if base.revision is None:
        return select_all(git, head, recipes_root=root, why=base.why)
    selection = select(git, git.commit(base.revision), head, recipes_root=root)
    return selection.model_copy(update={"notes": (f"Compared with {base.why}.", *selection.notes)})


def _validate_each(
    settings: Settings,
    around: Surroundings,
    selection: Selection,
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
            base,
            partial(added_lines, git, selection.merge_base, selection.head),
        )
    python = PythonTree(head)
    text = _pull_request_text(settings)
    checkout = None
    seen = Environment()
    if settings.hard_stages:
        checkout = stack.enter_context(checked_out(git, selection.head))
        if checkout.note is not None:
            notes.append(checkout.note)
        progress.line(f"looking at {settings.python}")
        seen = environment(
            settings.python, checkout.root, around.environ, pass_env=settings.pass_env
        )
        if seen.problem is not None:
            progress.line(f"  {seen.problem}")
    for selected in selection.recipes:
        with progress.group(f"{selected.name}"):
            source = read_recipe(head, python, selected.name, selected.path)
            checks = check_recipe(Context(source, head, python, diff, text))
            for check in checks:
                progress.line(f"  {check.id}: {check.verdict}: {check.summary}")
            stages: tuple[StageResult, ...] = not_run("it was not asked for")
            try:
                if checkout is not None:
                    stages = not_run("the run was cancelled")
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
            finally:
                recipes.append(
                    RecipeReport(
                        name=selected.name,
                        path=selected.path,
                        reasons=selected.reasons,
                        source=source,
                        checks=checks,
                        stages=stages,
                        gaps=recipe_gaps(checks, stages, seen),
                        environment=seen,
                    )
                )


def _pull_request_text(settings: Settings) -> str | None:
    path = settings.pull_request_text
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as trouble:
        raise SettingsError(
            f"pull_request_text: cannot read {path}: {trouble.strerror}"
        ) from trouble


def _repository_url(environ: Mapping[str, str]) -> str | None:
    server, repository = environ.get("GITHUB_SERVER_URL"), environ.get("GITHUB_REPOSITORY")
    return f"{server}/{repository}" if server and repository else None


def _run_url(environ: Mapping[str, str]) -> str | None:
    repository, run = _repository_url(environ), environ.get("GITHUB_RUN_ID")
    return f"{repository}/actions/runs/{run}" if repository and run else None

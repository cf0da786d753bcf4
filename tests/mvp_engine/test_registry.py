import importlib
import sys

import pytest

from mvp_engine.config import ConfigError
from mvp_engine.engine.registry import engine_class, import_recipe_engine, register_engine
from tests.mvp_engine import toy


def test_an_engine_is_found_by_name_and_by_dotted_path():
    assert engine_class("toy") is toy.ToyEngine
    assert engine_class("tests.mvp_engine.toy.ToyEngine") is toy.ToyEngine
    assert engine_class("tests.mvp_engine.toy:ToyEngine") is toy.ToyEngine


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("toi", r"^engine: found 'toi', allowed: (.+, )?toy(, .+)?, or a dotted path to a class$"),
        ("nowhere.Engine", r"^engine: 'nowhere\.Engine' cannot be imported: No module named"),
        (
            "tests.mvp_engine.toy.Toy",
            r"'tests\.mvp_engine\.toy\.Toy' is not a subclass of mvp_engine.engine.Engine$",
        ),
        (
            "tests.mvp_engine.toy.Nothing",
            r"'tests\.mvp_engine\.toy\.Nothing' is not a subclass of mvp_engine.engine.Engine$",
        ),
    ],
)
def test_an_unknown_engine_is_told(name, message):
    with pytest.raises(ConfigError, match=message):
        engine_class(name)


def test_a_name_belongs_to_one_class_but_a_module_may_be_imported_again():
    class Other(toy.ToyEngine):
        pass

    with pytest.raises(
        ValueError,
        match=r"^the engine 'toy' is registered by both tests.mvp_engine.toy.ToyEngine and ",
    ):
        register_engine("toy")(Other)
    again = type("ToyEngine", (toy.ToyEngine,), {"__module__": toy.__name__})
    try:
        register_engine("toy")(again)
        assert engine_class("toy") is again
    finally:
        register_engine("toy")(toy.ToyEngine)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    engine = tmp_path / "ours" / "recipes" / "walk" / "engine.py"
    (engine.parent / "configs").mkdir(parents=True)
    (engine.parents[1] / "__init__.py").write_text("")
    engine.write_text(
        "from mvp_engine.engine import register_engine\n"
        "from tests.mvp_engine.toy import ToyEngine\n"
        "@register_engine('walk')\n"
        "class WalkEngine(ToyEngine): ...\n"
    )
    config = engine.parent / "configs" / "tiny.yaml"
    config.write_text("engine: walk\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    ours = {name: m for name, m in sys.modules.items() if name.split(".")[0] == "recipes"}
    for name in ours:
        del sys.modules[name]
    importlib.invalidate_caches()
    yield config
    for name in [name for name in sys.modules if name.split(".")[0] == "recipes"]:
        del sys.modules[name]
    sys.modules.update(ours)


def test_a_recipes_engine_is_imported_from_its_configs_place(repository):
    import_recipe_engine(repository)
    assert sys.path[0] == str(repository.parents[3])
    assert engine_class("walk").__module__ == "recipes.walk.engine"


def test_another_repositorys_recipes_are_not_taken_for_the_configs_own(repository, tmp_path):
    other = tmp_path / "other" / "recipes" / "walk"
    other.mkdir(parents=True)
    (other.parent / "__init__.py").write_text("")
    (other / "engine.py").write_text("")
    # First on the path, as the folder that a command is started in is.
    sys.path[:0] = [str(tmp_path / "other"), str(repository.parents[3])]
    with pytest.raises(ConfigError, match=r"tiny\.yaml: recipes\.walk\.engine was imported from "):
        import_recipe_engine(repository)


def test_a_recipe_without_an_engine_module_is_told(repository):
    (repository.parents[1] / "engine.py").unlink()
    with pytest.raises(
        ConfigError,
        match=r"tiny\.yaml: recipes\.walk\.engine cannot be imported: No module named 'recipes",
    ):
        import_recipe_engine(repository)


def test_a_missing_dependency_of_an_engine_keeps_its_traceback(repository):
    (repository.parents[1] / "engine.py").write_text("import no_such_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        import_recipe_engine(repository)


def test_a_config_that_is_not_in_a_recipe_imports_nothing(tmp_path):
    before = set(sys.modules)
    import_recipe_engine(tmp_path / "c.yaml")
    assert set(sys.modules) == before

from pathlib import Path

import pytest

from action.settings import Settings, SettingsError, make_settings


def test_flags_win_over_inputs_and_empty_inputs_count_as_not_given():
    environ = {"INPUT_BASE": "main", "INPUT_FAIL_ON": "gap", "INPUT_STAGES": "", "INPUT_HEAD": " "}
    settings = make_settings({"base": "topic", "head": None}, environ)
    assert (settings.base, settings.head, settings.fail_on) == ("topic", "HEAD", "gap")
    assert settings.hard_stages == ("structure", "smoke", "identity")


def test_lists_are_split_at_commas_and_lines():
    settings = make_settings({"stages": "identity, structure"}, {"INPUT_RECIPES": "a\nb,\n c"})
    assert settings.recipes == ("a", "b", "c")
    assert settings.hard_stages == ("structure", "identity")


def test_limits_by_stage():
    settings = make_settings({"smoke_limit": "12.5"}, {})
    assert settings.limits == {"structure": 600, "smoke": 12.5, "identity": 600}


@pytest.mark.parametrize(
    ("flags", "environ", "sentence"),
    [
        (
            {"fail_on": "always"},
            {},
            "--fail-on: input should be 'fail', 'gap' or 'never', not 'always'",
        ),
        (
            {},
            {"INPUT_SMOKE_LIMIT": "ten"},
            "input smoke_limit: input should be a valid number, unable to parse string as a number,"
            " not 'ten'",
        ),
        (
            {"identity_limit": "0"},
            {},
            "--identity-limit: input should be greater than 0, not '0'",
        ),
        (
            {"stages": "soft,smoek"},
            {},
            "--stages: input should be 'soft', 'probe', 'structure', 'smoke' or 'identity', not "
            "'smoek'",
        ),
        (
            {"all": True, "base": "main"},
            {},
            "all and base exclude each other: all recipes need no comparison",
        ),
        (
            {"recipes_root": "../elsewhere"},
            {},
            "--recipes-root: a folder inside the repository is needed, not '../elsewhere'",
        ),
        ({"command": "report"}, {}, "report needs at least one report.json file"),
        (
            {"stages": " , "},
            {},
            "stages is empty; name at least one of soft, probe, structure, smoke, identity",
        ),
    ],
)
def test_a_bad_value_is_one_sentence_that_names_the_setting(flags, environ, sentence):
    with pytest.raises(SettingsError) as trouble:
        make_settings(flags, environ)
    assert str(trouble.value) == sentence


def test_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        Settings().out = Path("elsewhere")

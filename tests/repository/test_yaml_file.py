import pytest

from action.repository.syntax import UnparsableError
from action.repository.yaml_file import Entry, read_yaml


def test_scalars_by_dotted_path_with_their_lines():
    text = b"a:\n  b: [1, x]\n  c: {}\nd: 1e-3\ne: null\nf: 'yes'\ng: yes\nh: []\n"
    assert read_yaml("c.yaml", text) == {
        "a.b[0]": Entry(1, 2),
        "a.b[1]": Entry("x", 2),
        "a.c": Entry("{}", 3),
        "d": Entry("1e-3", 4),
        "e": Entry(None, 5),
        "f": Entry("yes", 6),
        "g": Entry(True, 7),
        "h": Entry("[]", 8),
    }


def test_aliases_are_followed_and_custom_tags_construct_nothing():
    text = b"a: &x {k: 1}\nb: *x\nc: !!python/object/apply:os.system [ls]\n"
    assert {path: e.value for path, e in read_yaml("c.yaml", text).items()} == {
        "a.k": 1,
        "b.k": 1,
        "c[0]": "ls",
    }


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 8)
)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: [1\n", 2, "broken YAML: "),
        ("a: 1\na: 2\n", 2, "broken YAML: the key `a` stands twice"),
        ("a: &x\n  b: *x\n", 1, "broken YAML: its aliases expand without end"),
        (BOMB, None, "broken YAML: its aliases expand without end"),
        ("a: 1\n---\nb: 2\n", None, "broken YAML: "),
        (b"a: \xff\n", None, "not UTF-8"),
        ("[" * 5000, None, ""),
    ],
)
def test_what_cannot_be_read_says_where(text, line, why):
    content = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(UnparsableError) as trouble:
        read_yaml("c.yaml", content)
    assert trouble.value.why.startswith(why)
    if line is not None:
        assert trouble.value.location.line == line


def test_an_empty_file_has_no_entries():
    assert read_yaml("c.yaml", b"# nothing\n") == {}

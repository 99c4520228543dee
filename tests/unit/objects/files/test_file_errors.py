"""The errors of a reading: collected, with their lines, in the order of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import ConfigError, ConfigErrors
from mooring.objects.files.documents import lines_of
from mooring.objects.files.file_errors import FileErrors, steps_of
from mooring.objects.files.limits import ERRORS_MAX
from mooring.objects.files.paths import Text
from mooring.objects.files.sources import Source

TEXT = "a: 1\nb:\n- c\n- d: 2\n---\ne: 3\n"


def source(folder: Path, name: str = "a.yaml", document: int = 1) -> Source:
    path = folder / name
    path.write_text(TEXT)
    text = Text(str(path))
    text.release()
    return Source(text.name, text, document, ())


def collected(errors: FileErrors) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        errors.raise_collected()
    return caught.value


def test_nothing_collected_is_nothing_raised() -> None:
    errors = FileErrors()
    assert not errors
    errors.raise_collected()


def test_one_error_is_raised_as_it_is(tmp_path: Path) -> None:
    errors = FileErrors()
    errors.add(source(tmp_path), ("b", 1, "d"), "is wrong", value=2)
    error = collected(errors)
    assert not isinstance(error, ConfigErrors)
    assert str(error) == f"{tmp_path / 'a.yaml'}: document 1: line 4: b[1].d: is wrong, got 2"


def test_several_are_one_error_a_line_each_in_the_order_of_the_file(tmp_path: Path) -> None:
    place = source(tmp_path)
    errors = FileErrors()
    errors.add(place._replace(document=2), ("e",), "is last")
    errors.add(place, ("b", 0), "is second")
    errors.add(place, ("a",), "is first")
    error = collected(errors)
    assert [line.rpartition(": ")[2] for line in str(error).splitlines()] == [
        "is first",
        "is second",
        "is last",
    ]
    assert (error.line, error.problem) == (1, "is first")


def test_one_too_many_ends_it_at_once(tmp_path: Path) -> None:
    errors, place = FileErrors(), source(tmp_path)
    for _ in range(ERRORS_MAX - 1):
        errors.add(place, ("a",), "is wrong")
    with pytest.raises(ConfigErrors) as caught:
        errors.add(place, ("a",), "is wrong")
    assert caught.value.is_cut
    assert len(caught.value.errors) == ERRORS_MAX


def test_a_file_that_is_gone_has_no_lines_but_errors(tmp_path: Path) -> None:
    place = source(tmp_path)
    (tmp_path / "a.yaml").unlink()
    errors = FileErrors()
    errors.add(place, ("a",), "is wrong")
    assert (collected(errors).line, collected(errors).path) == (None, "a")


def test_a_place_is_added_to_each_of_several() -> None:
    errors = ConfigErrors([ConfigError("one"), ConfigError("two", file="b")])
    located = errors.located(file="a")
    assert [error.file for error in located.errors] == ["a", "b"]
    assert str(located) == "a: one\nb: two"


def test_lines_of_many_places_come_from_one_reading() -> None:
    places = [(2, ("e",)), (1, ("b",)), (1, ("b", 1, "d")), (1, ("b", 1, "none")), (3, ("x",))]
    assert lines_of(TEXT, places) == [6, 2, 4, 4, None]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("spec.containers[1].name", ("spec", "containers", 1, "name")),
        ("spec.containers[7].name", ("spec", "containers", "[7].name")),
        ("spec.limits[a.b/c]", ("spec", "limits", "a.b/c")),
        ("spec.limits.a.b/c", ("spec", "limits", "a.b/c")),
        ("spec.missing.deep", ("spec", "missing.deep")),
        ("", ()),
    ],
)
def test_paths_are_followed_as_far_as_the_value_has_them(
    text: str, steps: tuple[str | int, ...]
) -> None:
    value = {"spec": {"containers": [{}, {"name": "c"}], "limits": {"a": 1, "a.b/c": 2}}}
    assert steps_of(value, text) == steps

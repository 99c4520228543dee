"""Objects of files that only plugins read: names of resources, scopes, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.objects.files.generic_objects import definitions_in, generic_object
from mooring.objects.files.reader import read_objects
from mooring.objects.meta import key

OXEN = (
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
    "metadata: {name: oxen.example.com, uid: u}\n"
    "spec: {group: example.com, scope: SCOPE, names: {kind: Ox, plural: oxen}}\n---\n"
)
OX = "apiVersion: example.com/v1\nkind: Ox\nmetadata: {name: a}\n---\n"


def read(folder: Path, text: str) -> list[tuple[str, str]]:
    file = folder / "objects.yaml"
    file.write_text(text)
    return [(type(obj).__name__, key(obj)) for obj in read_objects([str(file)])]


def test_without_a_definition_the_plural_is_guessed(tmp_path: Path) -> None:
    assert read(tmp_path, OX) == [("oxs.v1.example.com", "default/a")]


@pytest.mark.parametrize(("scope", "name"), [("Namespaced", "default/a"), ("Cluster", "a")])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_definition_has_plural_and_scope(
    tmp_path: Path, scope: str, name: str, is_first: bool
) -> None:
    definition = OXEN.replace("SCOPE", scope)
    text = definition + OX if is_first else OX + definition

    assert ("oxen.v1.example.com", name) in read(tmp_path, text)


def test_an_object_of_a_dump_without_a_namespace_has_none(tmp_path: Path) -> None:
    stored = OX.replace("{name: a}", "{name: a, uid: u}")

    assert [name for _, name in read(tmp_path, stored)] == ["a"]


def test_documents_without_a_name_are_no_objects(tmp_path: Path) -> None:
    text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a]\n"

    assert read(tmp_path, text) == []


def test_metadata_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"objects\.yaml.*metadata.*cannot be read"):
        read(tmp_path, OX.replace("{name: a}", "{name: a, labels: {x: [1]}}"))


def test_documents_of_a_recording_are_read_with_their_definitions() -> None:
    names = {"kind": "Ox", "plural": "oxen"}
    definition: dict[str, Any] = {
        "kind": "CustomResourceDefinition",
        "spec": {"group": "example.com", "names": names},
    }
    ox = {"apiVersion": "example.com/v1", "kind": "Ox", "metadata": {"name": "a"}}
    found = generic_object(ox, definitions_in([definition, ox]))

    assert type(found).__name__ == "oxen.v1.example.com"


@pytest.mark.parametrize("field", ["kind", "apiVersion"])
def test_a_null_character_in_a_kind_is_an_error_with_its_place(tmp_path: Path, field: str) -> None:
    document = {"apiVersion": "example.com/v1", "kind": "Ox", "metadata": {"name": "a"}}
    text = json.dumps({**document, field: f"{document[field]}\0"})
    with pytest.raises(ConfigError, match=rf"objects\.yaml.*{field}.*null character"):
        read(tmp_path, text)

# SPDX-License-Identifier: MIT
"""The dashboard for Grafana (share/grafana), read as Grafana describes dashboards: by the types that its makers generate from the
schema (grafana-foundation-sdk). What the schema has no place for would be lost on the way through, and Grafana would ignore it.
Whether its queries have answers is asked of a Prometheus in tests/exporter.bats.
"""
import json
import os
import pathlib

import pytest

SOURCE = pathlib.Path(os.environ.get("RAD_SOURCE_ROOT", pathlib.Path(__file__).parents[2]))
DASHBOARD = SOURCE / "share/grafana/rad-rm.json"
# Grafana itself writes this copy of a variable's query beside it; the schema has the query only.
NOT_IN_SCHEMA = {"definition"}


@pytest.fixture(scope="module")
def through_grafana():
    from grafana_foundation_sdk.cog import encoder, plugins
    from grafana_foundation_sdk.models import dashboard
    plugins.register_default_plugins()

    def through(value):
        read = dashboard.Dashboard.from_json(json.loads(json.dumps(value)))
        return json.loads(encoder.JSONEncoder().encode(read))
    return through


def lost(before, after, where=""):
    """Where `before` says something that `after` does not."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                if key not in NOT_IN_SCHEMA:
                    yield f"{where}/{key}"
            else:
                yield from lost(value, after[key], f"{where}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (a, b) in enumerate(zip(before, after)):
            yield from lost(a, b, f"{where}/{i}")
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"


def test_grafana_reads_all_of_it(through_grafana):
    dashboard = json.loads(DASHBOARD.read_text())
    assert list(lost(dashboard, through_grafana(dashboard))) == []


def test_what_grafana_does_not_know_is_seen(through_grafana):
    dashboard = json.loads(DASHBOARD.read_text())
    dashboard["panels"][1]["gridPosition"] = dashboard["panels"][1].pop("gridPos")
    assert list(lost(dashboard, through_grafana(dashboard))) == ["/panels/1/gridPosition"]


def test_panels_lie_beside_each_other():
    """No two panels overlap, and none is wider than the page of 24 columns."""
    taken = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        assert 0 <= at["x"] and at["x"] + at["w"] <= 24, panel["title"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells

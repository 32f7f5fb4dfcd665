"""Tests that `run --check` finds a broken anchor, and that the kill matrix can be read back."""
import importlib.machinery
import importlib.util
import pathlib
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
_LOADER = importlib.machinery.SourceFileLoader("run", str(HERE / "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", _LOADER))
_LOADER.exec_module(run)


def problems(text, anchor, form="expression"):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "a.cpp").write_text(text)
        edit = {"file": "a.cpp", "anchor": anchor, "form": form, "replacement": "false"}
        return list(run.misplaced([{"id": "M1", "bug": "a bug", "edit": [edit]}], pathlib.Path(folder)))


class TestAnchors:
    def test_whole_expressions_are_accepted(self):
        for text, anchor in (("if (a > b) return;", "a > b"), ("x = f(a > b, c);", "a > b"), ("return a > b;", "a > b"),
                             ("if (z && a > b) x();", "a > b"), ("y = c ? a + b : d;", "a + b"), ("if ((a || b) && c) x();", "a || b"),
                             ("d + f.g(a, b);", "f.g(a, b)"), ("if (!done()) x();", "done()")):
            assert problems(text, anchor) == [], text

    def test_parts_of_longer_expressions_are_reported(self):
        for text, anchor in (("if (now > since + bound + rounding) x();", "now > since + bound"), ("x = 2 * a + b;", "a + b"),
                             ("if (c && a || b) x();", "a || b"), ("x = a_more > b;", "a"), ("x = f.a(b);", "f.a"),
                             ("if (a == b.c) x();", "a == b"), ("if (x.a > b) y();", "a > b"), ("if (c == a > b) y();", "a > b")):
            found = problems(text, anchor)
            assert len(found) == 1, text
            assert "longer expression" in found[0]

    def test_statements_must_be_whole(self):
        assert problems("{ f(); g(); }", "g();", "statement") == []
        assert problems("if (a) g();", "g();", "statement") == []
        for anchor in ("g(", "f(); g(b)", "h + g(b);"):
            assert len(problems("{ f(); x = h + g(b); }", anchor, "statement")) == 1, anchor

    def test_anchors_must_match_exactly_once(self):
        for text in ("x = 1;", "if (a > b) if (a > b) x();"):
            assert "times" in problems(text, "a > b")[0]


class TestCatalogue:
    def test_each_shipped_fabric_has_bugs_that_are_found(self):
        rows = {row["id"]: row for row in run.updated(HERE / "matrix.md", [])}
        for folder in ("core/tcp/", "backends/verbs/"):
            ids = [mutant["id"] for mutant in run.catalogue() if any(edit["file"].startswith(folder) for edit in mutant["edit"])]
            assert len(ids) >= 15, folder
            assert [one for one in ids if one not in rows or not run.is_found(rows[one])] == [], folder


class TestMatrix:
    OPTIONS = types.SimpleNamespace(first=False, shrink=True, update=True, seeds=2000, scenario_seeds=30)

    def test_empty_update_changes_nothing(self):
        rows = run.updated(HERE / "matrix.md", [])
        assert len(rows) >= 74
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "matrix.md"
            run.write_matrix(copy, rows, self.OPTIONS)
            assert run.updated(copy, []) == rows
            kept = [line for line in (HERE / "matrix.md").read_text().splitlines() if line.startswith("| ")]
            assert [line for line in copy.read_text().splitlines() if line.startswith("| ")] == kept

    def test_new_row_replaces_the_old_one(self):
        row = {"id": "M02", "bug": "new", "scenario": None, "test": None, "sweep": None}
        rows = run.updated(HERE / "matrix.md", [row])
        assert [one for one in rows if one["id"] == "M02"] == [row]
        assert len(rows) == len(run.updated(HERE / "matrix.md", []))

"""Every section and invariant of docs/protocol.md that the tree cites exists, and so does every file that a document
names."""
import pathlib
import re
import subprocess

TREE = pathlib.Path(__file__).resolve().parents[3]
SUFFIXES = {".cpp", ".hpp", ".md", ".toml", ".py", ".txt", ".lua", ".json"}
NUMBER = r"\d+(?:\.\d+)?"
CITATION = re.compile(rf"[Pp]rotocol(?:\.md)?(?:\]\([^)]*\))?,? sections? ({NUMBER}(?:(?:, and |, | and | to ){NUMBER})*)"
                      r"((?:,)? invariants? \d+)?")


def citations(text):
    """Returns the sections and invariants that a text cites. A citation may span two lines of a comment."""
    flat = re.sub(r"\s*\n\s*(?:///?|#)?\s*", " ", text)
    sections, invariants = set(), set()
    for found in CITATION.finditer(flat):
        sections.update(re.findall(NUMBER, found[1]))
        if found[2]:
            invariants.update(re.findall(r"\d+", found[2]))
    return sections, invariants


LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"`((?:backends|cmake|conformance|core|docs|sim|tools)/[\w./*{},-]+)`")


def tracked():
    names = subprocess.run(["git", "ls-files"], cwd=TREE, capture_output=True, text=True, check=True).stdout
    return [name for name in names.splitlines() if (TREE / name).is_file()]


def without_braces(name):
    """Expands a/{b,c} to a/b and a/c."""
    found = re.search(r"\{([^}]*)\}", name)
    if not found:
        return [name]
    parts = (name[:found.start()] + part + name[found.end():] for part in found[1].split(","))
    return [one for part in parts for one in without_braces(part)]


def missing(names):
    """Yields the names that match no file. A name may contain wildcards and may lack the suffix of a source file; names with NAME
    are skipped."""
    for name in names:
        for one in without_braces(name):
            if "NAME" not in one and not any(any(TREE.glob(one.rstrip("/") + suffix)) for suffix in ("", ".hpp", ".cpp")):
                yield one


class TestDocuments:
    def test_links_and_named_files_exist(self):
        links = named = 0
        for name in tracked():
            if not name.endswith(".md") or name.startswith("conformance/mutants/"):
                continue
            text = (TREE / name).read_text(encoding="utf-8")
            for link in LINK.findall(text):
                assert (TREE / name).parent.joinpath(link).exists(), f"{name} links to {link}"
                links += 1
            found = NAMED.findall(text)
            assert list(missing(found)) == [], name
            named += len(found)
        assert links > 50
        assert named > 100

    def test_installed_pages_link_only_to_installed_pages(self):
        text = (TREE / "CMakeLists.txt").read_text(encoding="utf-8")
        files = re.search(r"install\(FILES ([^)]*) DESTINATION \S*/doc/urtrs ", text)[1].split()
        installed = [TREE / name for name in files] + [page for page in (TREE / "docs").rglob("*.md")
                                                       if TREE / "docs/man" not in page.parents]
        assert "install(DIRECTORY docs DESTINATION" in text
        for page in installed:
            for link in LINK.findall(page.read_text(encoding="utf-8")):
                target = (page.parent / link).resolve()
                assert target in installed or TREE / "docs" in target.parents, f"{page} links to {link}"

    def test_missing_names_are_reported(self):
        there = ["core/proto/inputs.hpp", "core/{wire,proto}", "sim/net/queue_pairs/network*.cpp", "sim/world/script"]
        assert list(missing(there)) == []
        assert list(missing(["core/nothing.hpp", "core/{wire,nothing}", "sim/nothing*.cpp"])) == [
            "core/nothing.hpp", "core/nothing", "sim/nothing*.cpp"]


class TestCitations:
    def test_cited_sections_and_invariants_exist(self):
        protocol = (TREE / "docs/protocol.md").read_text(encoding="utf-8")
        headings = set(re.findall(rf"^##+ ({NUMBER})\.? ", protocol, re.MULTILINE))
        listed = set(re.findall(r"^(\d+)\. ", protocol[protocol.index("\n## 11."):protocol.index("\n## 12.")],
                                re.MULTILINE))
        count = 0
        for name in tracked():
            path = TREE / name
            if path.suffix not in SUFFIXES:
                continue
            sections, invariants = citations(path.read_text(encoding="utf-8", errors="replace"))
            assert sections <= headings, name
            assert invariants <= listed, name
            count += len(sections)
        assert count > 100

    def test_citations_across_lines_are_found(self):
        assert citations("// a (protocol\n// section 2.5) b") == ({"2.5"}, set())
        assert citations("protocol.md sections 2.1 to 2.4 and 3") == ({"2.1", "2.4", "3"}, set())
        assert citations("protocol section 11, invariant 16") == ({"11"}, {"16"})

    def test_citations_after_links_and_at_sentence_starts_are_found(self):
        assert citations("Protocol section 7. A peer") == ({"7"}, set())
        assert citations("([protocol.md](../docs/protocol.md), section 12)") == ({"12"}, set())

#!/usr/bin/env python3
"""Every section and invariant of docs/protocol.md that the tree cites is there."""
import pathlib
import re
import subprocess
import unittest

TREE = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = {".cpp", ".hpp", ".md", ".toml", ".py", ".txt", ".lua", ".json"}
NUMBER = r"\d+(?:\.\d+)?"
CITATION = re.compile(rf"[Pp]rotocol(?:\.md)?(?:\]\([^)]*\))?,? sections? ({NUMBER}(?:(?:, and |, | and | to ){NUMBER})*)"
                      r"((?:,)? invariants? \d+)?")


def citations(text):
    """Sections and invariants that a text cites; a citation may go on in the next line of a comment."""
    flat = re.sub(r"\s*\n\s*(?:///?|#)?\s*", " ", text)
    sections, invariants = set(), set()
    for found in CITATION.finditer(flat):
        sections.update(re.findall(NUMBER, found[1]))
        if found[2]:
            invariants.update(re.findall(r"\d+", found[2]))
    return sections, invariants


class Citations(unittest.TestCase):
    def test_they_resolve(self):
        protocol = (TREE / "docs/protocol.md").read_text(encoding="utf-8")
        headings = set(re.findall(rf"^##+ ({NUMBER})\.? ", protocol, re.MULTILINE))
        listed = set(re.findall(r"^(\d+)\. ", protocol[protocol.index("\n## 11."):protocol.index("\n## 12.")],
                                re.MULTILINE))
        names = subprocess.run(["git", "ls-files"], cwd=TREE, capture_output=True, text=True, check=True).stdout
        count = 0
        for name in names.splitlines():
            path = TREE / name
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            sections, invariants = citations(path.read_text(encoding="utf-8", errors="replace"))
            self.assertLessEqual(sections, headings, name)
            self.assertLessEqual(invariants, listed, name)
            count += len(sections)
        self.assertGreater(count, 100)

    def test_a_citation_is_found_across_lines(self):
        self.assertEqual(citations("// a (protocol\n// section 2.5) b"), ({"2.5"}, set()))
        self.assertEqual(citations("protocol.md sections 2.1 to 2.4 and 3"), ({"2.1", "2.4", "3"}, set()))
        self.assertEqual(citations("protocol section 11, invariant 16"), ({"11"}, {"16"}))

    def test_a_citation_is_found_at_the_start_of_a_sentence_and_behind_a_link(self):
        self.assertEqual(citations("Protocol section 7. A peer"), ({"7"}, set()))
        self.assertEqual(citations("([protocol.md](../docs/protocol.md), section 12)"), ({"12"}, set()))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Opens the page that `urtrs-replay seq --html` writes in headless Chromium and looks at what it became.

Usage: page_test.py URTRS_REPLAY TRACES
Exit code: 0 good, 1 not, 77 skipped (no Chromium; the reason is printed).
"""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

REPLAY = TRACES = CHROMIUM = None
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Elements(html.parser.HTMLParser):
    """All elements as (tag, attributes, text directly in them)."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.open = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])
        self.open.append(len(self.found) - 1)

    def handle_endtag(self, tag):
        while self.open and self.found[self.open.pop()][0] != tag:
            pass

    def handle_data(self, text):
        for at in self.open:
            self.found[at][2] += text

    def having(self, word):
        return [one for one in self.found if word in one[1].get("class", "").split()]

    def named(self, identity):
        return next(one for one in self.found if one[1].get("id") == identity)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="urtrs-page-")
        cls.work = pathlib.Path(cls.folder.name)
        cls.traces = [TRACES / "seed-420-client1.rtrc", TRACES / "seed-420-server.rtrc"]
        cls.story = json.loads(cls.replay("--json", "--limit", "0"))
        steps = cls.story["steps"]
        cls.titles = [steps["strings"][i] for i in steps["title"]]
        cls.moved = next(i for i, title in enumerate(cls.titles) if "fails over" in title)
        cls.tag = "AB"[steps["file"][cls.moved]] + str(steps["record"][cls.moved])
        cls.page = cls.work / "page.html"
        cls.replay("--html", str(cls.page), "--mark", cls.tag + ":planted <b>text</b>")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def replay(cls, *arguments):
        return subprocess.run([REPLAY, "seq", *cls.traces, *arguments], check=True, capture_output=True, text=True).stdout

    def dom(self, fragment, script=None):
        """The page as it is after loading, and after `script` did something to it."""
        page = self.page
        if script:
            page = self.work / "driven.html"
            page.write_text(self.page.read_text().replace("</body>", f"<script>{script}</script></body>"))
        with tempfile.TemporaryDirectory(prefix="urtrs-chromium-") as profile:
            result = subprocess.run(
                [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                 "--disable-dev-shm-usage", "--user-data-dir=" + profile, "--window-size=1600,1000",
                 "--virtual-time-budget=2000", "--dump-dom", f"file://{page}#{fragment}"],
                capture_output=True, text=True, timeout=240)
        self.assertEqual(result.returncode, 0, result.stderr[-2000:])
        return Elements(result.stdout)

    def test_lanes_and_steps(self):
        dom = self.dom("")
        lanes = [one[1] for one in dom.having("lane")]
        kinds = [lane["data-kind"] for lane in lanes]
        self.assertEqual(kinds[0], "client")
        self.assertEqual(kinds[-2:], ["server", "storage"])
        self.assertEqual(kinds.count("connection"),
                         sum(lane["kind"] == "connection" for lane in self.story["lanes"]))
        steps = dom.having("step")
        self.assertGreater(len(steps), 20)
        # In the order of the story, and each with its words.
        numbers = [int(one[1]["data-step"]) for one in steps]
        self.assertEqual(numbers, sorted(numbers))
        for one in steps:
            self.assertIn(self.titles[int(one[1]["data-step"])], one[2])
        self.assertTrue(dom.having("arrow"))
        self.assertTrue(dom.having("state"), "bars of the paths' states")
        count = re.match(r"([\d,]+) of ([\d,]+) steps", dom.named("status")[2])
        self.assertEqual(int(count[2].replace(",", "")), len(self.titles))

    def test_the_violation_is_seen_first_and_is_red(self):
        dom = self.dom("")
        marked = [one for one in dom.having("violation") if one[0] == "g"]
        self.assertEqual([one[1]["data-record"] for one in marked], [self.tag])
        self.assertIn("planted <b>text</b>", marked[0][2])
        self.assertIn("alarm", dom.named("violation")[1]["class"])

    def test_search(self):
        dom = self.dom("q=fails+over")
        matches = sum("fails over" in title for title in self.titles)
        self.assertRegex(dom.named("status")[2], rf", {matches} match(es)?$")
        self.assertTrue(any("fails over" in one[2] for one in dom.having("match")))
        only = self.dom("q=fails+over&only=1").having("step")
        self.assertEqual(len(only), matches)
        self.assertTrue(all("fails over" in one[2] for one in only))

    def test_filter(self):
        everything, without = self.dom("zoom=3&hide="), self.dom("zoom=3&hide=heartbeat,local,connect")
        groups = lambda dom: {one[1]["data-group"] for one in dom.having("step")}
        self.assertTrue({"connect", "local"} <= groups(everything))
        self.assertFalse({"heartbeat", "local", "connect"} & groups(without))
        pressed = {one[1]["data-group"]: one[1]["aria-pressed"] for one in without.having("chip") if "data-group" in one[1]}
        self.assertEqual((pressed["heartbeat"], pressed["io"]), ("false", "true"))

    def test_a_chosen_step_is_decoded_and_its_request_followed(self):
        dom = self.dom("at=" + self.tag + "&follow=1")
        details = dom.named("details")[2]
        self.assertIn(self.titles[self.moved], details)
        self.assertIn("fenced", details)
        io = self.story["steps"]["io"][self.moved]
        expected = sum(one == io for one in self.story["steps"]["io"])
        self.assertEqual(len(dom.having("step")), expected)
        events = {one[1]["data-event"] for one in dom.having("step")}
        self.assertTrue({"Submitted", "PostRequest", "FailedOver", "Complete"} <= events)

    def test_keys(self):
        press = "for (const key of %s) document.dispatchEvent(new KeyboardEvent('keydown', {key}));"
        down = self.dom("at=" + self.tag, press % "['j', 'j', 'k']")
        chosen = [int(one[1]["data-step"]) for one in down.having("step") if "selected" in one[1]["class"].split()]
        steps = [int(one[1]["data-step"]) for one in down.having("step")]
        self.assertEqual(chosen, [steps[steps.index(self.moved) + 1]])
        quiet = self.dom("zoom=3", press % "['h']")
        self.assertFalse(any(one[1]["data-group"] == "heartbeat" for one in quiet.having("step")))
        time = self.dom("", press % "['t', 'd']")
        self.assertEqual(time.named("mode")[2], "time")
        self.assertEqual(self.dom("", press % "['v']").named("details")[2].count("Violation: planted"), 1)

    def test_hovering_decodes(self):
        dom = self.dom("at=" + self.tag, """
            const row = document.querySelector('.step.io.selected');
            row.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 300, clientY: 300}));""")
        tip = dom.named("tip")
        self.assertNotIn("hidden", tip[1])
        self.assertIn(self.titles[self.moved], tip[2])
        self.assertIn("permit", tip[2])

    def test_true_to_time_and_dark(self):
        dom = self.dom("mode=time&zoom=60&theme=dark")
        self.assertEqual(dom.found[0][1].get("data-theme"), "dark")
        self.assertTrue(dom.having("tick"))
        self.assertTrue(dom.having("step"))

    def test_the_page_needs_no_network(self):
        text = self.page.read_text()
        addresses = set(re.findall(r"https?://[^\s\"'<>]+", text)) - {"http://www.w3.org/2000/svg"}
        self.assertEqual(addresses, set())
        self.assertIn("default-src 'none'", text)
        self.assertNotIn("<b>text", text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    REPLAY, TRACES = sys.argv[1], pathlib.Path(sys.argv[2])
    CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
    if CHROMIUM is None:
        print("skipped: no Chromium here (" + ", ".join(BROWSERS) + "); apt-get install chromium")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])

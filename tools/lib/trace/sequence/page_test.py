"""Opens the page of `urtrs-replay seq --html` in headless Chromium and checks the resulting elements."""

import json
import re
import subprocess

import pytest
from browser import CHROMIUM, dom
from programs import TRACES, program

REPLAY = program("urtrs-replay")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


class TestPage:
    @pytest.fixture(autouse=True, scope="class")
    def given(self, tmp_path_factory):
        cls = type(self)
        cls.work = tmp_path_factory.mktemp("page")
        cls.traces = [TRACES / "seed-420-client1.rtrc", TRACES / "seed-420-server.rtrc"]
        cls.story = json.loads(cls.replay("--json", "--limit", "0"))
        steps = cls.story["steps"]
        cls.titles = [steps["strings"][i] for i in steps["title"]]
        cls.moved = next(i for i, title in enumerate(cls.titles) if "fails over" in title)
        cls.tag = "AB"[steps["file"][cls.moved]] + str(steps["record"][cls.moved])
        cls.page = cls.work / "page.html"
        cls.replay("--html", str(cls.page), "--mark", cls.tag + ":planted <b>text</b>")

    @classmethod
    def replay(cls, *arguments):
        return subprocess.run([REPLAY, "seq", *cls.traces, *arguments], check=True, capture_output=True, text=True).stdout

    def dom(self, fragment, script=""):
        return dom(self.page, script, fragment, "1600,1000")

    def test_lanes_and_steps(self):
        dom = self.dom("")
        lanes = [one[1] for one in dom.having("lane")]
        kinds = [lane["data-kind"] for lane in lanes]
        assert kinds[0] == "client"
        assert kinds[-2:] == ["server", "storage"]
        assert kinds.count("connection") == sum(lane["kind"] == "connection" for lane in self.story["lanes"])
        steps = dom.having("step")
        assert len(steps) > 20
        # The page shows the steps in their order in the trace data, each with its text.
        numbers = [int(one[1]["data-step"]) for one in steps]
        assert numbers == sorted(numbers)
        for one in steps:
            assert self.titles[int(one[1]["data-step"])] in one[2]
        assert dom.having("arrow")
        assert dom.having("state"), "bars of the paths' states"
        count = re.match(r"([\d,]+) of ([\d,]+) steps", dom.named("status")[2])
        assert int(count[2].replace(",", "")) == len(self.titles)

    def test_violation_is_shown_in_red(self):
        dom = self.dom("")
        marked = [one for one in dom.having("violation") if one[0] == "g"]
        assert [one[1]["data-record"] for one in marked] == [self.tag]
        assert "planted <b>text</b>" in marked[0][2]
        assert "alarm" in dom.named("violation")[1]["class"]

    def test_search(self):
        dom = self.dom("q=fails+over")
        matches = sum("fails over" in title for title in self.titles)
        assert re.search(rf", {matches} match(es)?$", dom.named("status")[2])
        assert any("fails over" in one[2] for one in dom.having("match"))
        only = self.dom("q=fails+over&only=1").having("step")
        assert len(only) == matches
        assert all("fails over" in one[2] for one in only)

    def test_filter(self):
        everything, without = self.dom("zoom=3&hide="), self.dom("zoom=3&hide=heartbeat,local,connect")
        groups = lambda dom: {one[1]["data-group"] for one in dom.having("step")}
        assert {"connect", "local"} <= groups(everything)
        assert not ({"heartbeat", "local", "connect"} & groups(without))
        pressed = {one[1]["data-group"]: one[1]["aria-pressed"] for one in without.having("chip") if "data-group" in one[1]}
        assert (pressed["heartbeat"], pressed["io"]) == ("false", "true")

    def test_selected_step_is_decoded_and_its_request_followed(self):
        dom = self.dom("at=" + self.tag + "&follow=1")
        details = dom.named("details")[2]
        assert self.titles[self.moved] in details
        assert "fenced" in details
        io = self.story["steps"]["io"][self.moved]
        expected = sum(one == io for one in self.story["steps"]["io"])
        assert len(dom.having("step")) == expected
        events = {one[1]["data-event"] for one in dom.having("step")}
        assert {"Submitted", "PostRequest", "FailedOver", "Complete"} <= events

    def test_keys(self):
        press = "for (const key of %s) document.dispatchEvent(new KeyboardEvent('keydown', {key}));"
        down = self.dom("at=" + self.tag, press % "['j', 'j', 'k']")
        chosen = [int(one[1]["data-step"]) for one in down.having("step") if "selected" in one[1]["class"].split()]
        steps = [int(one[1]["data-step"]) for one in down.having("step")]
        assert chosen == [steps[steps.index(self.moved) + 1]]
        quiet = self.dom("zoom=3", press % "['h']")
        assert not any(one[1]["data-group"] == "heartbeat" for one in quiet.having("step"))
        time = self.dom("", press % "['t', 'd']")
        assert time.named("mode")[2] == "time"
        assert self.dom("", press % "['v']").named("details")[2].count("Violation: planted") == 1

    def test_hovering_shows_the_decoded_step(self):
        dom = self.dom("at=" + self.tag, """
            const row = document.querySelector('.step.io.selected');
            row.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 300, clientY: 300}));""")
        tip = dom.named("tip")
        assert "hidden" not in tip[1]
        assert self.titles[self.moved] in tip[2]
        assert "permit" in tip[2]

    def test_time_scale_and_dark_theme(self):
        dom = self.dom("mode=time&zoom=60&theme=dark")
        assert dom.found[0][1].get("data-theme") == "dark"
        assert dom.having("tick")
        assert dom.having("step")

    def test_page_needs_no_network(self):
        text = self.page.read_text()
        addresses = set(re.findall(r"https?://[^\s\"'<>]+", text)) - {"http://www.w3.org/2000/svg"}
        assert addresses == set()
        assert "default-src 'none'" in text
        assert "<b>text" not in text

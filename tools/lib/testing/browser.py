"""Opens a page in headless Chromium."""

import html.parser
import shutil
import subprocess
import tempfile

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Elements(html.parser.HTMLParser):
    """Collects all elements as (tag, attributes, text directly in the element)."""

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


def dom(page, script="", fragment="", size="1280,800"):
    """Returns the elements of the page after loading it and running `script`."""
    if script:
        driven = page.with_name("driven.html")
        driven.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
        page = driven
    with tempfile.TemporaryDirectory(prefix="urtrs-chromium-") as profile:
        result = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--disable-dev-shm-usage", "--user-data-dir=" + profile, "--window-size=" + size,
             "--virtual-time-budget=2000", "--dump-dom", f"file://{page}#{fragment}"],
            capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return Elements(result.stdout)

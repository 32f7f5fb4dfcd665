"""Progress of a soak, in a file that is replaced atomically."""
import json
import os


class State:
    """Loads the state file. Raises ValueError if the file is not the state of a soak. `fresh` ignores an existing file."""

    def __init__(self, path, fresh=False):
        self.path = path
        self.plan = None
        self.done = {}  # key of a chunk -> {verdict, seconds, commit, reason, repeat, folder}
        if path.exists() and not fresh:
            try:
                known = json.loads(path.read_text(encoding="utf-8"))
                self.plan, self.done = known["plan"], known["done"]
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{path} is not the state of a soak; use --fresh to start over") from None

    def begin(self, plan):
        self.plan, self.done = plan, {}
        self.save()

    def record(self, key, result):
        self.done[key] = result
        self.save()

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"plan": self.plan, "done": self.done}, indent=1) + "\n", encoding="utf-8")
        os.replace(new, self.path)

    def seconds(self, item, fallback):
        """Returns the mean duration of the finished chunks of an item, in seconds; `fallback` if no chunk has finished."""
        seen = [one["seconds"] for key, one in self.done.items() if key.partition(":")[0] == item]
        return sum(seen) / len(seen) if seen else fallback

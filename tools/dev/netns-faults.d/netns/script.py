"""Fault scripts: steps separated by semicolons, such as `run 1; link 1 down; lost 1; link 1 up; settle`."""
import dataclasses
import re

PATHS = 2
WORDS = """
  run SECONDS                        the load runs on
  drop PATH to-server|to-client|both packets in this direction vanish
  hole PATH                          packets of the busiest connection of the path vanish, both directions
  lose PATH PERCENT%                 each packet vanishes with this probability, both directions
  reset PATH                         packets to the server are answered by RST
  refuse PATH                        new connections vanish (SYN), those that exist go on
  rate PATH RATE                     a token bucket in both directions, as 20mbit
  link PATH down|up                  the server's end of the cable
  heal PATH [drop|hole|lose|reset|refuse|rate] ends these faults, all of them without a word
  stop server|client, cont ...       SIGSTOP and SIGCONT
  kill server|client, term server    SIGKILL, SIGTERM
  start server [OPTION ...]          again, with these options of urtrsd after those it had
  start client                       a new process with a session of its own
  finish client                      the load reads everything once more and ends
  remove PATH, add PATH              orders to the client
  limit image, unlimit image         the server may write to a half of the cells only (EFBIG)
  grow disk                          what was full has room again
  lost PATH                          waits until the client has lost the path; bounded
  settle                             waits until all paths are connected; bounded
  failed                             waits until a request has failed
PATH is 0, 1 or all.
"""


@dataclasses.dataclass(frozen=True)
class Step:
    word: str
    arguments: tuple

    def __str__(self):
        return " ".join((self.word, *self.arguments))

    def paths(self):
        return range(PATHS) if self.arguments[0] == "all" else (int(self.arguments[0]),)

    def seconds(self):
        return float(self.arguments[0])


PATH = r"(0|1|all)"
FORMS = {
    "run": r"\d+(\.\d+)?", "drop": PATH + " (to-server|to-client|both)", "hole": PATH, "lose": PATH + r" ([1-9]|[1-9]\d)%",
    "reset": PATH, "refuse": PATH, "rate": PATH + r" \d+(kbit|mbit)", "link": PATH + " (down|up)",
    "heal": PATH + "( (drop|hole|lose|reset|refuse|rate))?", "stop": "(server|client)", "cont": "(server|client)",
    "kill": "(server|client)", "term": "server", "start": r"(client|server( \S+)*)", "finish": "client",
    "remove": "[01]", "add": "[01]", "limit": "image", "unlimit": "image", "grow": "disk", "lost": PATH, "settle": "",
    "failed": "",
}


def parse(text):
    """Parses a script into steps. Raises ValueError that names the error and the allowed forms."""
    steps = []
    for part in text.split(";"):
        word, _, rest = " ".join(part.split()).partition(" ")
        if word not in FORMS or not re.fullmatch(FORMS[word], rest):
            raise ValueError(f"'{part.strip()}' is not a step; steps are{WORDS}".rstrip())
        steps.append(Step(word, tuple(rest.split())))
    return steps

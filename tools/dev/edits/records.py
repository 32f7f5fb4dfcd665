"""Ways to choose a record of a trace and to change it. A change takes all records of a trace, which it may modify, and
the index of the chosen one."""


def fields(**wanted):
    return lambda one: all(one["fields"].get(name) == value for name, value in wanted.items())


ANY = fields()


def both(*tests):
    return lambda one: all(test(one) for test in tests)


def longer(field, size):
    """The bytes in `field` are longer than `size`."""
    return lambda one: len(one["fields"][field]) > 2 * size


def starts(field, text):
    return lambda one: one["fields"][field].startswith(text)


def number(field, at, width):
    return lambda one: int.from_bytes(bytes.fromhex(one["fields"][field])[at:at + width], "little")


def changed(one, **values):
    return {**one, "fields": {**one["fields"], **values}}


def put(**values):
    def change(records, at):
        records[at] = changed(records[at], **values)
    return change


def put_in(values):
    """As put(), for fields with a dot in their name."""
    return put(**values)


def more(field, by=1):
    def change(records, at):
        records[at] = changed(records[at], **{field: records[at]["fields"][field] + by})
    return change


def patched(field, at, width, value, end=False):
    """Changes a number in the bytes of a message; `end`: `at` counts from the end of the bytes."""
    def change(records, place):
        raw = bytearray.fromhex(records[place]["fields"][field])
        first = len(raw) - at if end else at
        old = int.from_bytes(raw[first:first + width], "little")
        raw[first:first + width] = (value(old) % (1 << 8 * width)).to_bytes(width, "little")
        records[place] = changed(records[place], **{field: raw.hex()})
    return change


def flip(bits=1):
    return lambda old: old ^ bits


def plus(by):
    return lambda old: old + by


def drop(records, at):
    del records[at]


def twice(records, at):
    records.insert(at, dict(records[at]))


def swap_next(records, at):
    """Exchanges the record with the next one of its instance and event, with their fields only."""
    other = next(n for n in range(at + 1, len(records)) if same_kind(records[n], records[at]))
    records[at], records[other] = ({**records[at], "fields": records[other]["fields"]},
                                   {**records[other], "fields": records[at]["fields"]})


def same_kind(one, other):
    return one.get("event") == other["event"] and one["instance"] == other["instance"]


def later(seconds):
    """Moves the record and all that follow: the clock jumps."""
    def change(records, at):
        for place in range(at, len(records)):
            if "time" in records[place]:
                records[place] = {**records[place], "time": records[place]["time"] + int(seconds * 1e9)}
    return change


def sooner(records, at):
    """The step has the time of the record before it."""
    own, before = records[at]["time"], records[at - 1]["time"]
    while at < len(records) and records[at].get("time") == own:
        records[at] = {**records[at], "time": before}
        at += 1


def second(event, change):
    """Changes the next record of the event after the chosen one."""
    return lambda records, at: change(records, next(n for n in range(at + 1, len(records)) if records[n].get("event") == event))


def step_back(seconds):
    """The time of this record and of the rest of its step is before that of the record before."""
    def change(records, at):
        own = records[at]["time"]
        while at < len(records) and records[at].get("time") == own:
            records[at] = {**records[at], "time": max(0, own - int(seconds * 1e9))}
            at += 1
    return change

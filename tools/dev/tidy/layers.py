"""Include rules. Dependencies go one way, and the pure layers include only headers without side effects."""

import posixpath
import re

from source import Finding, is_code

# The six top folders and their layers: core < backends, sim < conformance < tools. docs contains examples.
TOPS = {"core": 0, "backends": 1, "sim": 1, "conformance": 2, "tools": 3, "docs": 3}

# Rules by path prefix; the longest prefix that matches a file applies. A file may include its own folder and
# the listed folders; None allows every folder.
LAYERS = {
    "core/base": [],
    "core/wire": ["core/base"],
    "core/iwarp": ["core/base"],
    "core/rnbd": ["core/base", "core/wire"],
    "core/proto": ["core/base", "core/wire"],
    "core/fabric": ["core/base", "core/wire", "core/proto"],
    "core/keyed": ["core/base", "core/wire", "core/proto", "core/fabric"],
    "core/tcp": ["core/base", "core/wire", "core/iwarp", "core/proto", "core/fabric"],
    "core/record": ["core/base", "core/wire", "core/rnbd", "core/proto", "core/fabric"],
    "core/driver": ["core/base", "core/wire", "core/rnbd", "core/proto", "core/fabric", "core/record"],
    "core": ["core"],
    "backends/platform/address": ["core"],
    "backends/platform/system": ["core"],
    "backends/platform/tls": ["core", "backends/platform/address"],
    "backends/verbs": ["core", "backends/platform/address"],
    "backends/libfabric": ["core", "backends/platform/address"],
    "backends/tcp": ["core", "backends/platform/address", "backends/platform/tls"],
    "backends/options": ["core", "backends/platform/tls", "backends/verbs"],
    "backends/bindings/asio": ["core", "backends/platform/address", "backends/platform/system"],
    "backends/bindings/c": ["core", "backends/platform", "backends/options", "backends/tcp", "backends/verbs"],
    "backends": ["core"],
    "sim/choices": ["core"],
    "sim/net/basic": ["core", "sim/choices"],
    "sim/net/queue_pairs": ["core", "sim/choices", "sim/net/basic"],
    "sim/net/streams": ["core", "sim/choices", "sim/net/basic", "sim/net/queue_pairs"],
    "sim/net/adapters": ["core", "backends/verbs"],
    "sim/net/verbs": ["core", "backends/verbs", "sim/choices", "sim/net"],
    "sim/faults": ["core", "sim/choices", "sim/net"],
    "sim/oracles": ["core"],
    "sim/model": ["core"],
    "sim/memory": ["core"],
    "sim/explore": ["core", "sim/model"],
    "sim/world": ["core", "sim/choices", "sim/net", "sim/faults", "sim/oracles", "sim/disks"],
    "sim": ["core", "sim"],
    "conformance/spec": [],
    "conformance/cases": ["core", "sim"],
    "conformance/bench": ["core", "sim"],
    "conformance/fuzz": ["core", "sim"],
    "conformance": ["core", "backends", "sim", "conformance"],
    "tools/lib/trace/reader": ["core"],
    "tools/lib/trace/replay": ["core", "tools/lib/trace/reader"],
    "tools/lib/trace/hangs": ["core", "conformance/spec", "tools/lib/trace/reader"],
    "tools/lib/trace/judge": ["core", "sim", "conformance/spec", "tools/lib/trace/hangs", "tools/lib/trace/reader", "tools/lib/trace/replay"],
    "tools/lib/trace": ["core", "sim", "conformance/spec", "tools/lib/files", "tools/lib/text", "tools/lib/trace"],
    "tools/lib/text": ["core", "backends", "tools/lib/text", "tools/lib/files"],
    "tools/lib/control": ["core", "backends", "tools/lib/control", "tools/lib/files", "tools/lib/text"],
    "tools/lib": ["core", "backends", "tools/lib"],
    "tools/dev": ["core", "backends", "sim", "conformance", "tools"],
    "tools/urtrsd/storage": ["core", "backends", "tools/lib"],
    "tools/urtrsd/config": ["core", "backends", "tools/lib", "tools/urtrsd/storage"],
    "tools/urtrsd/control": ["core", "backends", "tools/lib", "tools/urtrsd/storage", "tools/urtrsd/config"],
    "tools/urtrsd": ["core", "backends", "tools/lib", "tools/urtrsd"],
    "tools/urtrs/command": ["core", "backends", "tools/lib"],
    "tools/urtrs/views": ["core", "backends", "tools/lib", "tools/urtrs/command"],
    "tools/urtrs/doctor": ["core", "backends", "tools/lib", "tools/urtrs/command", "tools/urtrs/views"],
    "tools/urtrs": ["core", "backends", "tools/lib", "tools/urtrs"],
    "tools": ["core", "backends", "sim", "conformance/cases", "tools/lib"],
    "docs": ["core", "backends"],
    "cmake": None,
}

# Folders that tests below tools/ may include, too.
TESTS_OF_TOOLS_SEE = ["backends", "sim", "conformance", "tools/lib"]

PURE = ("core/wire", "core/iwarp", "core/proto", "core/rnbd")

# Headers without allocation, clock, randomness, threads, IO, and exceptions that they throw themselves. Add a
# header only if the purity test (purity.py) still passes. <new> is listed only for placement new; the purity
# test rejects other uses.
PURE_HEADERS = {
    "algorithm", "array", "bit", "bitset", "compare", "concepts", "cstddef", "cstdint", "cstring", "initializer_list",
    "iterator", "limits", "new", "numeric", "optional", "span", "string_view", "tuple", "type_traits", "utility",
    "variant", "version", "tl/expected.hpp",
}

# Headers of external libraries, and the only folders that may include them.
OUTSIDE = {
    "boost/": ("backends/bindings/asio/", "conformance/", "tools/", "docs/examples/"),
    "rdma/": ("backends/libfabric/", "backends/verbs/", "sim/net/adapters/", "conformance/", "tools/"),
    "openssl/": ("backends/platform/tls/", "conformance/", "tools/"),
    "infiniband/": ("backends/verbs/", "sim/net/adapters/", "conformance/", "tools/"),
}

# In these folders, time is passed as an argument and random numbers come from a seed. Threads are allowed
# only in backends and tools.
CLOCKLESS = ("core/", "sim/")
# Exceptions: the exhaustive search uses threads, and the simulated adapters run in real time in the tests of
# backends/verbs.
WITH_CLOCKS = ("sim/explore/", "sim/net/adapters/")
CLOCKS = {"chrono", "ctime", "time.h", "sys/time.h", "random", "thread", "mutex", "shared_mutex", "condition_variable",
          "future"}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def layer_of(path):
    fitting = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(fitting, key=len) if fitting else None


def seen_by(path):
    """Returns the folders that a file may include besides its own; None: all."""
    layer = layer_of(path)
    seen = LAYERS[layer]
    if seen is None or not path.startswith("tools/") or not is_test(path):
        return seen
    return seen + [folder for folder in TESTS_OF_TOOLS_SEE if folder not in seen]


def _may_see(path, target):
    seen = seen_by(path)
    if seen is None or posixpath.dirname(target) == posixpath.dirname(path):
        return True
    return any(target.startswith(prefix + "/") for prefix in seen)


def runs_up(path, target):
    top, above = path.split("/")[0], target.split("/")[0]
    return TOPS.get(above, 0) > TOPS.get(top, len(TOPS))


def is_test(path):
    """Returns True for files of tests. The rules for clocks and pure headers do not apply to tests; the order of layers
    does."""
    return bool(re.search(r"(^|/)test_|_test", path))


def _refusal(path, layer, target):
    if runs_up(path, target):
        top = path.split("/")[0]
        return (f"{top} must not include {target}: the order is core < backends, sim < conformance < tools. "
                f"Code that needs both belongs to {target.split('/')[0]} (docs/tree.md)")
    return f"{layer} must not include {target}: it sees only {', '.join([posixpath.dirname(path)] + seen_by(path))}"


def includes(text):
    """Yields (line, quoted, path) for each #include. Examples include installed headers: <urtrs/core/driver/client.hpp>
    is core/driver/client.hpp."""
    for match in _INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) == '"', match.group(2).removeprefix("urtrs/")


def check(path, text):
    layer = layer_of(path)
    if not is_code(path) or layer is None:
        return
    test = is_test(path)
    for line, quoted, target in includes(text):
        target_layer = layer_of(target)
        if quoted and target_layer is None and LAYERS[layer] is not None:
            yield Finding(path, line, f'"{target}" is not written from the repository root ("core/wire/imm.hpp")')
        elif target_layer is not None and not _may_see(path, target):
            yield Finding(path, line, _refusal(path, layer, target))
        elif any(target.startswith(p) and not path.startswith(places) for p, places in OUTSIDE.items()):
            yield Finding(path, line, f"<{target}> is not for {layer}: its library has its own place")
        elif target in CLOCKS and path.startswith(CLOCKLESS) and not path.startswith(WITH_CLOCKS) and not test:
            yield Finding(path, line, f"<{target}> is not allowed in {layer}: time and chance come in from outside")
        elif layer in PURE and not test and target_layer is None and target not in PURE_HEADERS:
            yield Finding(path, line, f"<{target}> is not allowed in {layer}, which is pure (tools/dev/tidy/layers.py)")

"""Each rule reports a violation and accepts correct code."""


import folders
import layers
import namespaces
import shape


def layer_messages(path, text):
    return [str(finding) for finding in layers.check(path, text)]


def text_messages(path, text):
    return [str(finding) for finding in shape.text_findings(path, text)]


def body(lines, head="void f() {"):
    return head + "\n" + "  g();\n" * (lines - 2) + "}\n"


class TestFolders:
    SOURCES = {"a/one.hpp": '#include "b/two.hpp"\n', "b/two.hpp": '#include "c/three.hpp"\n', "c/three.hpp": ""}

    def page(self, rows):
        return "".join(f"- `{row}`: what it is\n" for row in rows)

    def messages(self, sources, page):
        return [str(finding) for finding in folders.findings(sources, page)]

    def test_complete_tree_page_is_accepted(self):
        assert self.messages(self.SOURCES, self.page("abc")) == []

    def test_cycles_across_folders_are_found(self):
        sources = dict(self.SOURCES, **{"c/three.hpp": '#include "a/one.hpp"\n'})
        assert folders.circles(folders.graph(sources)) == [["a", "b", "c"]]
        assert "the folders a, b, c include each other" in self.messages(sources, self.page("abc"))[0]

    def test_missing_and_stale_lines_are_reported(self):
        assert "no line for b" in self.messages(self.SOURCES, self.page("ac"))[0]
        assert "d has no C++ file" in self.messages(self.SOURCES, self.page("abcd"))[0]

    def test_includes_only_of_tests_are_dotted(self):
        sources = dict(self.SOURCES, **{"b/two_test.cpp": '#include "d/four.hpp"\n#include "c/three.hpp"\n', "d/four.hpp": ""})
        arrows = [line.strip() for line in folders.draw(sources).splitlines() if ">" in line]
        assert arrows == ["a --> b", "b --> c", "b -.-> d"]

    def test_transitive_arrows_are_omitted(self):
        sources = dict(self.SOURCES, **{"a/one.hpp": '#include "b/two.hpp"\n#include "c/three.hpp"\n'})
        assert folders.needed(folders.graph(sources)) == [("a", "b"), ("b", "c")]


class TestLayers:
    def assert_refused(self, path, include, part):
        messages = layer_messages(path, f"#pragma once\n#include {include}\n")
        assert len(messages) == 1, messages
        assert messages[0].startswith(f"{path}:2: "), messages
        assert part in messages[0]

    def assert_accepted(self, path, include):
        assert layer_messages(path, f"#include {include}\n") == []

    def test_dependencies_run_one_way(self):
        self.assert_refused("core/wire/imm.hpp", '"core/proto/ids.hpp"', "core/wire must not include")
        self.assert_refused("core/rnbd/client.cpp", '"core/proto/ids.hpp"', "core/rnbd must not include")
        self.assert_refused("core/proto/path.cpp", '"core/driver/client.hpp"', "must not include")
        self.assert_refused("core/driver/client.cpp", '"sim/world/world.hpp"', "must not include")
        self.assert_refused("core/fabric/fabric.hpp", '"backends/bindings/asio/ops.hpp"', "must not include")
        self.assert_refused("backends/bindings/asio/ops.cpp", '"sim/world/world.hpp"', "must not include")
        self.assert_refused("sim/world/world.cpp", '"backends/libfabric/cm.hpp"', "must not include")
        self.assert_refused("sim/world/world.cpp", '"tools/urtrs-sim/options.hpp"', "must not include")

    def test_order_of_top_folders_applies_to_tests_too(self):
        order = "core < backends, sim < conformance < tools"
        for folder in ("traces", "fuzz", "bench", "netns", "asio"):
            for file in ("a.cpp", "a_test.cpp", "test_support.hpp"):
                self.assert_refused(f"conformance/{folder}/{file}", '"tools/lib/trace/reader/reader.hpp"', order)
        self.assert_refused("conformance/cases/case.cpp", '"tools/lib/text/duration.hpp"', "belongs to tools")
        self.assert_refused("sim/net/queue_pairs/a_test.cpp", '"conformance/contract/contract.hpp"', "belongs to conformance")
        self.assert_refused("backends/bindings/asio/a.cpp", '"sim/net/queue_pairs/sim_fabric.hpp"', "it sees only backends/bindings/asio")
        self.assert_refused("docs/examples/a.cpp", '"tools/lib/trace/reader/reader.hpp"', "it sees only")

    def test_programs_share_only_tools_lib(self):
        self.assert_refused("tools/urtrs-sim/main.cpp", '"tools/urtrsd/daemon.hpp"', "it sees only tools/urtrs-sim")
        self.assert_refused("tools/urtrs-sim/main.cpp", '"tools/dev/traces/replayed.hpp"', "it sees only tools/urtrs-sim")
        self.assert_refused("tools/urtrs-sim/main.cpp", '"conformance/asio/loop.hpp"', "it sees only tools/urtrs-sim")
        self.assert_refused("tools/lib/trace/reader/reader.cpp", '"tools/lib/files/scratch_folder.hpp"', "it sees only")
        self.assert_accepted("tools/lib/trace/reader/reader_test.cpp", '"tools/lib/files/scratch_folder.hpp"')
        self.assert_accepted("tools/lib/trace/reader/reader_test.cpp", '"conformance/asio/loop.hpp"')
        self.assert_accepted("tools/dev/bench/a.cpp", '"tools/urtrsd/daemon.hpp"')
        self.assert_accepted("tools/dev/fuzz/a.cpp", '"conformance/fuzz/fuzz.hpp"')

    def test_allowed_dependencies_are_accepted(self):
        self.assert_accepted("core/proto/path.cpp", '"core/wire/imm.hpp"')
        self.assert_accepted("core/driver/client.cpp", '"core/record/format.hpp"')
        self.assert_accepted("backends/bindings/asio/ops.cpp", '"core/driver/client.hpp"')
        self.assert_accepted("tools/urtrsd/main.cpp", '"backends/libfabric/cm.hpp"')
        self.assert_accepted("conformance/alloc_test.cpp", '"sim/world/world.hpp"')

    def test_angle_brackets_do_not_bypass_the_rules(self):
        self.assert_refused("core/wire/imm.hpp", "<core/proto/ids.hpp>", "core/wire must not include")

    def test_installed_headers_are_files_of_the_tree(self):
        self.assert_refused("core/wire/imm.hpp", "<urtrs/core/proto/ids.hpp>", "core/wire must not include")
        sources = {"docs/a.cpp": "#include <urtrs/core/b.hpp>\n", "core/b.hpp": ""}
        assert folders.graph(sources)["docs"] == {"core"}

    def test_pure_layers_include_only_pure_headers(self):
        for banned in ("chrono", "random", "thread", "mutex", "iostream", "string", "vector", "functional", "unistd.h",
                       "sys/socket.h", "boost/asio.hpp", "rdma/fabric.h", "infiniband/verbs.h", "gtest/gtest.h"):
            for layer in layers.PURE:
                self.assert_refused(f"{layer}/a.cpp", f"<{banned}>", layer)
        self.assert_accepted("core/proto/a.cpp", "<span>")
        self.assert_accepted("core/proto/a_test.cpp", "<vector>")
        self.assert_accepted("core/proto/test_support.hpp", "<vector>")
        self.assert_accepted("core/driver/a.cpp", "<vector>")

    def test_external_libraries_are_limited_to_their_folders(self):
        self.assert_refused("core/driver/client.cpp", "<boost/asio.hpp>", "its own place")
        self.assert_refused("backends/libfabric/cm.cpp", "<boost/asio.hpp>", "its own place")
        self.assert_refused("sim/fabric.cpp", "<rdma/fabric.h>", "its own place")
        self.assert_accepted("backends/bindings/asio/ops.cpp", "<boost/asio.hpp>")
        self.assert_accepted("backends/libfabric/cm.cpp", "<rdma/fabric.h>")

    def test_core_and_simulation_have_no_clock_or_randomness(self):
        for banned in ("chrono", "thread", "random", "mutex"):
            self.assert_refused("sim/world/world.cpp", f"<{banned}>", "come in from outside")
            self.assert_refused("core/driver/client.cpp", f"<{banned}>", "come in from outside")
        self.assert_accepted("backends/bindings/asio/ops.cpp", "<chrono>")
        self.assert_accepted("tools/urtrs-sim/sweep.cpp", "<chrono>")

    def test_quoted_includes_start_at_the_root(self):
        self.assert_refused("core/proto/a.cpp", '"ids.hpp"', "from the repository root")


class TestNamespaces:
    def messages(self, *files):
        sources = {path: "#pragma once\n\n" + "".join(f"namespace {name} {{\n" for name in names) for path, *names in files}
        return [str(finding) for finding in namespaces.findings(sources)]

    def test_a_namespace_belongs_to_one_folder(self):
        assert self.messages(("core/wire/a.hpp", "rtrs::wire"), ("core/wire/b.cpp", "rtrs::wire::rnbd"), ("core/keyed/a.hpp", "rtrs::keyed"),
                             ("tools/urtrsd/a.hpp", "rtrs::daemon"), ("tools/urtrsd/storage/a.hpp", "rtrs::daemon")) == []
        assert self.messages(("core/wire/a.hpp", "rtrs::wire"), ("core/keyed/a.hpp", "rtrs::wire::rnbd")) == [
            "core/wire/a.hpp:3: namespace rtrs::wire is in core/wire and in core/keyed: give one of them its own"]
        for other in ("tools/lib/text/a.hpp", "tools/urtrs-mapd/a.hpp"):
            assert len(self.messages(("tools/lib/http/a.hpp", "rtrs::http"), (other, "rtrs::http"))) == 1

    def test_shared_namespaces_are_listed(self):
        assert self.messages(("core/base/a.hpp", "rtrs"), ("core/driver/a.hpp", "rtrs::test"), ("backends/tcp/a.cpp", "rtrs::tcp"),
                             ("core/tcp/a.cpp", "rtrs::tcp"), ("tools/lib/text/a.hpp", "rtrs::tools")) == []
        for path, namespace in (("core/wire/a.hpp", "rtrs"), ("tools/dev/a/a.hpp", "rtrs::trace::test"), ("tools/urtrs-sim/a.cpp", "rtrs::tools")):
            assert len(self.messages((path, namespace))) == 1

    def test_a_test_file_may_be_inside_the_namespace_of_its_subject(self):
        assert self.messages(("sim/a.hpp", "rtrs::sim"), ("conformance/sim/world_test.cpp", "rtrs::sim::world_test", "rtrs::sim")) == [
            "conformance/sim/world_test.cpp:4: namespace rtrs::sim is in conformance/sim and in sim: give one of them its own"]

    def test_old_names_are_kept_by_using_declarations(self):
        assert self.messages(("backends/a/a.hpp", "rtrs {\nusing a::f;\n}\n//")) == []


class TestText:
    def test_leftover_markers_are_found(self):
        for word in ("TO" "DO", "FIX" "ME"):
            assert len(text_messages("a.md", f"one\n{word}: later\n")) == 1
        assert text_messages("a.md", "A method of todos\n") == []

    def test_trailing_space_tab_and_last_newline(self):
        assert text_messages("a.cpp", "one \ntwo\n") == ["a.cpp:1: trailing space"]
        assert text_messages("a.cpp", "\tone\n") == ["a.cpp:1: tab"]
        assert len(text_messages("a.cpp", "one")) == 1

    def test_headers_have_pragma_once(self):
        assert len(text_messages("a.hpp", "int x;\n")) == 1
        assert text_messages("a.hpp", "#pragma once\nint x;\n") == []

    def test_file_length(self):
        assert text_messages("a.cpp", "x\n" * shape.MAX_FILE_LINES) == []
        assert len(text_messages("a.cpp", "x\n" * (shape.MAX_FILE_LINES + 1))) == 1


class TestFunctions:
    def found(self, text):
        return [(name, lines) for name, _, lines in shape.functions(text)]

    def test_finds_function_bodies_but_not_types(self):
        assert self.found("namespace a {\nstruct S {\n  int f() const { return 1; }\n};\n}\n") == [("f", 1)]
        assert self.found("enum class E : int { a, b };\nint x[] = {1, 2};\nconst A b{f(1)};\n") == []

    def test_counts_the_outermost_body_with_nested_ones(self):
        text = "int f(int x) {\n  auto g = [&](int y) {\n    return y;\n  };\n  if (x) {\n    return g(x);\n  }\n}\n"
        assert self.found(text) == [("f", 8)]

    def test_sees_through_comments_strings_and_macros(self):
        text = '#define OPEN {\nint f() {\n  // }\n  const char* s = "}";\n  char c = \'}\';\n  return 1\'000;\n}\n'
        assert self.found(text) == [("f", 6)]

    def test_names_members_operators_and_tests(self):
        text = "bool A::on(int x) noexcept {\n}\nbool operator==(A a, A b) {\n}\nTEST(ImmTest, Roundtrip) {\n}\n"
        assert [name for name, _ in self.found(text)] == ["A::on", "operator==", "TEST(ImmTest, Roundtrip)"]

    def test_constructor_with_initialisers(self):
        assert self.found("A::A(int x)\n    : x_(x),\n      y_(2) {\n  go();\n}\n") == [("A::A", 5)]

    def test_length_rule(self):
        limit = shape.MAX_FUNCTION_LINES
        assert list(shape.function_findings("a.cpp", body(limit), {})) == []
        findings = list(shape.function_findings("a.cpp", "\n\n" + body(limit + 1), {}))
        assert [str(f) for f in findings] == [f"a.cpp:3: f has {limit + 1} lines, at most {limit}"]

    def test_switch_tables_may_be_long(self):
        head, tail = "const char* to_string(E e) {\n  switch (e) {\n", "  }\n  return \"?\";\n}\n"
        cases = "    case E::one:\n      return \"one\";\n" * 100
        assert list(shape.function_findings("a.cpp", head + cases + tail, {})) == []
        work = head + cases + "    case E::two:\n      go();\n      return \"two\";\n" + tail
        assert len(list(shape.function_findings("a.cpp", work, {}))) == 1

    def test_ratchet_only_goes_down(self):
        ratchet = shape.read_ratchet("a.cpp f 80  # a table\n")
        assert list(shape.function_findings("a.cpp", body(80), dict(ratchet))) == []
        assert "at most 80" in str(list(shape.function_findings("a.cpp", body(81), dict(ratchet)))[0])
        assert "shrank to 70" in str(list(shape.function_findings("a.cpp", body(70), dict(ratchet)))[0])

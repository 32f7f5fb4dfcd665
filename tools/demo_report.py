#!/usr/bin/env python3
"""Reports on a run of tools/demo, from the status file of the plugin and the JSON of fio.

demo_report.py wait STATUS SECONDS      until every path is connected again; keeps STATUS as STATUS.final
demo_report.py show STATUS FIO          prints the report; exit code 1 if a check failed
"""
import json
import pathlib
import shutil
import sys
import time


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def wait(status_path, seconds) -> int:
    end = time.monotonic() + seconds
    states = "no status file was written"
    while time.monotonic() < end:
        try:
            status = read(status_path)
            states = ", ".join(f"{path['address']}: {path['state']} ({path['reason']})" for path in status["paths"])
            if all(path["state"] == "connected" for path in status["paths"]):
                shutil.copyfile(status_path, status_path + ".final")
                return 0
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    print(f"after {seconds} s not every path is connected: {states}", file=sys.stderr)
    return 1


def print_paths(status) -> None:
    print(f"{'path':28}{'state':12}{'IOs':>9}{'taken over':>12}{'lost, back':>12}{'failed tries':>14}{'heartbeat':>12}")
    for path in status["paths"]:
        beat = f"{path['rtt_us']:.0f} us" if path["rtt_us"] else "-"
        print(f"{path['address']:28}{path['state']:12}{path['ios']:>9}{path['failovers']:>12}"
              f"{path['reconnects']:>12}{path['failed_attempts']:>14}{beat:>12}")


def print_events(status) -> None:
    print("\nevents (seconds since the start of the client)")
    for event in status["events"]:
        if event["what"] in ("connecting", "device_init"):
            continue
        where = status["paths"][event["path"]]["address"] if event["path"] >= 0 else "session"
        why = "" if event["reason"] in ("none", "") else f" ({event['reason']})"
        more = f", next attempt in {event['next_attempt_s']:.1f} s" if event["next_attempt_s"] > 0 else ""
        print(f"  {event['at_s']:8.3f}  {where:28}{event['what']}{why}{more}")


def print_latency(status) -> None:
    print(f"\n{'IO latency':28}{'IOs':>9}{'median':>12}{'99 %':>12}{'worst':>12}")
    for phase, words in (("before", "before the cut"), ("during", "while a path was missing"),
                         ("after", "after it came back")):
        row = status["latency"][phase]
        print(f"{words:28}{row['ios']:>9}{row['p50_us']:>9.0f} us{row['p99_us']:>9.0f} us{row['max_us']:>9.0f} us")


def show(status_path, fio_path) -> int:
    status = read(status_path)
    print_paths(status)
    print_events(status)
    print_latency(status)
    job = read(fio_path)["jobs"][0]
    print(f"\nfio: {job['write']['total_ios']} writes, {job['read']['total_ios']} verified reads, "
          f"errors {job['total_err'] if 'total_err' in job else job['error']}; "
          f"requests failed at the client: {status['request_errors']}; "
          f"sent again on the other path: {status['failovers']}, without a fence: {status['unfenced_failovers']}")
    wrong = []
    if job["error"] or job.get("total_err", 0):
        wrong.append("fio saw IO errors")
    if status["request_errors"]:
        wrong.append("requests failed")
    if any(path["state"] != "connected" for path in status["paths"]):
        wrong.append("a path is not connected")
    if not any(path["reconnects"] for path in status["paths"]):
        wrong.append("no path was lost: the cut did not reach it")
    for text in wrong:
        print(f"WRONG: {text}", file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    if len(sys.argv) != 4 or sys.argv[1] not in ("wait", "show"):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "wait":
        return wait(sys.argv[2], float(sys.argv[3]))
    return show(sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    sys.exit(main())

"""Real runs of urtrsd and the nbdkit plugin that fail in a known way. Each function returns the traces, the client's first."""
import signal

from programs import BOUND, stand_still, until
from scene import HeldDisk, Relay


def running(scene, *options, server=()):
    scene.start_server(scene.disk(), *server)
    scene.start_client(*options)
    scene.until_connected()
    scene.until_recorded()


def stopped_server(scene):
    running(scene)
    stand_still(scene.server.process)
    scene.until_lost()
    scene.server.process.send_signal(signal.SIGCONT)
    scene.until_connected()
    scene.load.progress()
    return scene.finish()


def killed_server(scene):
    running(scene)
    scene.server.end(signal.SIGKILL)
    scene.until_lost()
    scene.start_server(scene.disk())
    scene.until_connected()
    scene.load.progress()
    return scene.finish()


def ended_server(scene):
    running(scene)
    scene.server.end(signal.SIGTERM)
    scene.until_lost()
    scene.start_server(scene.disk())
    scene.until_connected()
    scene.load.progress()
    return scene.finish()


def killed_client(scene):
    running(scene)
    scene.nbdkit.kill()
    scene.nbdkit.wait(BOUND)
    scene.server.logged(r"host.* (closed|disconnected|lost)|session .*closed")
    return scene.finish()


def killed_client_server_only(scene):
    return killed_client(scene)[1:]


def stopped_client(scene):
    running(scene)
    stand_still(scene.nbdkit)
    scene.server.logged("heartbeat_lost")
    scene.nbdkit.send_signal(signal.SIGCONT)
    scene.until_logged_loss()
    scene.until_connected()
    scene.load.progress()
    return scene.finish()


def with_held_disk(scene, *filters):
    held = HeldDisk(scene, *filters)
    scene.start_server(scene.disk(held.uri))
    scene.start_client()
    scene.until_connected()
    return held


def hung_storage(scene):
    held = with_held_disk(scene)
    stand_still(held.process)
    scene.until_hang()
    return scene.copies()


def slow_storage(scene):
    held = with_held_disk(scene)
    stand_still(held.process)
    scene.until_hang()
    held.process.send_signal(signal.SIGCONT)
    scene.load.progress()
    return scene.finish()


def failing_storage(scene):
    fails = scene.file("fails")
    with_held_disk(scene, "--filter=error", "error-pwrite=EIO", "error-pwrite-rate=100%", f"error-pwrite-file={fails}")
    fails.touch()
    until("a write fails", lambda: scene.load.errors)
    fails.unlink()
    scene.load.progress()
    return scene.finish()


def hung_server(scene):
    """The traces are copied while the server does not run, before the paths are lost."""
    running(scene, "heartbeat_missed=60", server=("--heartbeat-missed=60",))
    stand_still(scene.server.process)
    scene.until_hang(5)
    return scene.copies()


def cut(scene, kind, argument=""):
    scene.use_network()
    running(scene)
    path = scene.draw.choice((0, 1))
    if kind == "hole":
        argument = scene.network.busiest_connection(path)
    scene.network.fault(path, kind, argument)
    scene.until_lost(path)
    scene.load.progress()
    scene.network.heal(path)
    scene.until_connected()
    scene.load.progress()
    return scene.finish()


def cut_path(scene):
    return cut(scene, "drop", "both")


def cut_one_way(scene):
    return cut(scene, "drop", scene.draw.choice(("to-server", "to-client")))


def hole(scene):
    return cut(scene, "hole")


def reset(scene):
    return cut(scene, "reset")


def cut_both(scene):
    scene.use_network()
    running(scene)
    for path in (0, 1):
        scene.network.fault(path, "drop", "both")
    scene.until_lost()
    for path in (0, 1):
        scene.network.heal(path)
    scene.until_connected()
    scene.load.progress()
    return scene.finish()


def refused_path(scene):
    """Nothing listens at the address of a second path."""
    scene.start_server(scene.disk())
    path = scene.draw.choice((0, 1))
    paths = [scene.paths[0], scene.paths[0]]
    paths[path] = "127.0.0.3"
    scene.start_client(paths=paths)
    until("the path is refused", lambda: scene.states() and scene.states()[path] != "connected")
    scene.load.progress()
    return scene.finish()


def missing_export(scene):
    scene.start_server("--export=other=mem:4M")
    scene.start_client("connect_timeout=3s", works=False)
    scene.nbdkit.wait(BOUND)
    return scene.finish()


def refused_address(scene):
    scene.start_server(scene.disk(), "--allow-addresses=10.0.0.0/8")
    scene.start_client("connect_timeout=3s", works=False)
    scene.nbdkit.wait(BOUND)
    return scene.finish()


def new_key(scene, name):
    file = scene.file(name)
    scene.urtrs("key", "new", "host", str(file))
    return file


def wrong_key(scene):
    scene.start_server(scene.disk(), f"--tls-keys={new_key(scene, 'theirs')}")
    scene.start_client("connect_timeout=3s", f"tls_keys={new_key(scene, 'ours')}", works=False)
    scene.nbdkit.wait(BOUND)
    return scene.finish()


def operator_of_client(scene):
    running(scene)
    path = scene.draw.choice((0, 1))
    control = f"--socket={scene.file('client.sock')}"
    scene.urtrs("client", "path", "disconnect", "host", str(path), control)
    scene.until_lost(path)
    scene.load.progress()
    scene.urtrs("client", "path", "reconnect", "host", str(path), control)
    scene.until_connected()
    scene.load.progress()
    return scene.finish()


def operator_of_server(scene):
    running(scene)
    scene.urtrs("session", "disconnect", "host", f"--socket={scene.file('control')}")
    scene.until_logged_loss()
    scene.until_connected()
    scene.load.progress()
    return scene.finish()


def damaged_data(scene):
    scene.start_server(scene.disk(), "--crc")
    relay = Relay(scene, scene.draw.choice((True, False)))
    scene.start_client("crc=on", paths=[f"127.0.0.1:{relay.port}"])
    scene.load.progress()
    relay.wanted = True
    scene.until_logged_loss()
    until("the path is connected", lambda: scene.states() == ("connected",))
    scene.load.progress()
    return scene.finish()


REAL = {function.__name__: function for function in (
    stopped_server, killed_server, ended_server, killed_client, killed_client_server_only, stopped_client, hung_storage, slow_storage,
    failing_storage, hung_server, cut_path, cut_one_way, hole, reset, cut_both, refused_path, missing_export, refused_address, wrong_key,
    operator_of_client, operator_of_server, damaged_data)}

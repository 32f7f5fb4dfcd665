# title: the client is killed (the kernel's: forced unmap) under load; the server drops the session; it reconnects
# fast: yes
server_start
client_map 0
load_start 0
sleep 2
load_alive
client_kill 0
load_fails
killed=$(now)
wait_for 60 "the server has forgotten the session" server_has_no_session
figure client_kill_forgotten "$(since "$killed")" s
client_map 0
wait_for 10 "all paths connected" all_paths
verify 0 --rw=randwrite --bs=16k --size=2M --iodepth=8
client_unmap 0

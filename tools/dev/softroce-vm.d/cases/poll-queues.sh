# title: the kernel's client with one polled queue
# only: client=kernel
POLL_QUEUES=1
server_start
client_map 0
verify 0 --rw=randwrite --bs=4k --size=4M --iodepth=8
fio --name=polled --filename="$(device 0)" --direct=1 --ioengine=pvsync2 --hipri --rw=randread --bs=4k --size=8M \
  --time_based --runtime=3 --eta=never >"$RUN/polled.log" 2>&1 || { cat "$RUN/polled.log"; fail "polled reads"; }
client_unmap 0

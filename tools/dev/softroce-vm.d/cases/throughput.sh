# title: IOs per second of every pair of peers and of NVMe over RDMA, measured in turns
# only: client=kernel server=kernel paths=1
# limit: 800
# ours: yes
# Both servers run at the same time. Each pair has its own disk. Our programs write no trace.
DISKS=5
QUEUE_DEPTH=512
DISK_KIND=ram
NO_TRACES=yes
PORT=1235 server_start
SERVER=urtrs server_start
PORT=1235 client_map 0
SERVER=urtrs client_map 1 rw other
PORT=1235 CLIENT=urtrs client_map 2
SERVER=urtrs CLIENT=urtrs client_map 3
devices="kernel-kernel=$(device 0) kernel-urtrs=$(device 1)"
devices+=" urtrs-kernel=$(CLIENT=urtrs device 2) urtrs-urtrs=$(CLIENT=urtrs device 3)"
if nvme_start 4; then devices+=" nvme=/dev/nvme0n1"; fi
for one in $devices; do dd if=/dev/urandom of="${one#*=}" bs=256k count=128 oflag=direct status=none; done
throughput-jobs $devices >"$RUN/throughput.fio"
fio --eta=never --output-format=json --output="$RUN/throughput.json" "$RUN/throughput.fio" >"$RUN/fio.log" 2>&1 ||
  { cat "$RUN/fio.log"; fail "fio"; }
throughput-report "$RUN/throughput.json" >"$RUN/medians" || fail "fio saw errors"
while read -r name iops; do figure "$name" "$iops" IOPS; done <"$RUN/medians"
nvme_stop
CLIENT=urtrs client_unmap 2
CLIENT=urtrs client_unmap 3
client_unmap 0
client_unmap 1

# Completion of urtrs-mapd for fish: options, file names and group names.
complete -c urtrs-mapd -f
complete -c urtrs-mapd -s h -l help -d 'Print help and exit'
complete -c urtrs-mapd -l version -d 'Print version, fabrics and compiler, and exit'
complete -c urtrs-mapd -l json -d 'The version as JSON'
complete -c urtrs-mapd -l state -r -F -d 'What is to be mapped'
complete -c urtrs-mapd -l control-group -x -a '(__fish_complete_groups)' -d 'Whose members may map and unmap'
complete -c urtrs-mapd -l nbdkit -r -F -d 'The program that serves a session'
complete -c urtrs-mapd -l end-devices -d 'End the devices with this program'
complete -c urtrs-mapd -l kernel-devices -d 'Only keep devices of the kernel connected'

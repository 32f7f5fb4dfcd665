# title: packets to the server are lost on path 1, then the path is healed
# limit: 400
lose_one_path to-server
